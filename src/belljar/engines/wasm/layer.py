"""A layer of packages on its way into a sandbox: packed when it is made, sent in pieces when somebody needs it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from belljar.engines.wasm.assembly import Runtime, run_script
from belljar.engines.wasm.deno import build_command
from belljar.engines.wasm.pack import Packing
from belljar.errors import StartFailed

PACK = "pack"
CHUNK_BYTES = 8 << 20
COMPILED_FROM_BYTES = 500_000  # below that, compiling inside takes less time than starting somebody who does it ahead


def pack_layer(folder: Path, runtime: Runtime) -> None:
    """Pack the site folder of a layer that is being made; large ones with their modules compiled."""
    with Packing(folder / PACK) as packing:
        packing.add_folder(folder / "site")
    if sum(path.stat().st_size for path in (folder / "site").rglob("*.py")) < COMPILED_FROM_BYTES:
        return
    compiled = folder / "compiled.bin"
    command = build_command(str(runtime.deno), runtime.folder, "compile.js", str(compiled), str(folder), into=folder)
    try:
        run_script(command)
    except StartFailed:
        return  # they are compiled when they are imported, then
    with Packing(folder / PACK) as packing:
        packing.add_folder(folder / "site")
        packing.add_compiled(compiled)
    compiled.unlink()


def layer_requests(site: Path | None) -> Iterator[dict[str, Any]]:
    """What mounts a layer in place of the last one; none at all for None."""
    if site is None:
        yield {"type": "layer_mount", "tree": None}
        return
    with open(site.parent / f"{PACK}.bin", "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield {"type": "layer_part", "data": base64.b64encode(chunk).decode("ascii")}
    yield {"type": "layer_mount", "tree": (site.parent / f"{PACK}.json").read_text("utf-8")}
