"""A layer of packages on its way into a sandbox: packed when it is made, sent in pieces when somebody needs it."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from belljar.engines.wasm.assembly import Runtime, run_script
from belljar.engines.wasm.deno import build_command
from belljar.engines.wasm.pack import Packing
from belljar.errors import StartFailed
from belljar.packages.bounded import COMPILER_BYTES, Budget
from belljar.packages.bytecode import LARGEST
from belljar_kernel.protocol import HANDED_PIECE_BYTES

PACK, COMPILED = "pack", "compiled.bin"
COMPILED_FROM_BYTES = 500_000  # below that, compiling inside takes less time than starting somebody who does it ahead


def pack_layer(folder: Path, runtime: Runtime, budget: Budget) -> None:
    """Pack the site folder of a layer that is being made; large ones with their modules compiled."""
    modules = [size for path in (folder / "site").rglob("*.py") if (size := path.stat().st_size) <= LARGEST]
    if sum(modules) < COMPILED_FROM_BYTES or not _compile(folder, runtime, budget):
        with Packing(folder / PACK) as packing:
            packing.add_folder(folder / "site")
        return
    compiled = folder / COMPILED
    with Packing(folder / PACK) as packing:
        packing.add_folder(folder / "site")
        packing.add_compiled(compiled)
    compiled.unlink()


def _compile(folder: Path, runtime: Runtime, budget: Budget) -> bool:
    """Whether it went well; else they are compiled when they are imported. Large ones are always."""
    with Packing(folder / PACK) as packing:
        packing.add_folder(folder / "site", largest=LARGEST)
    out = str(folder / COMPILED)
    command = build_command(str(runtime.deno), runtime.folder, "compile.js", out, str(folder), into=folder)
    try:
        run_script(command, seconds=max(1.0, budget.until - time.monotonic()), memory_bytes=COMPILER_BYTES)
        return True
    except StartFailed:
        (folder / COMPILED).unlink(missing_ok=True)
        return False


def layer_requests(site: Path | None) -> Iterator[dict[str, Any]]:
    """What mounts a layer in place of the last one; none at all for None."""
    if site is None:
        yield {"type": "layer_mount", "tree": None}
        return
    with open(site.parent / f"{PACK}.bin", "rb") as file:
        while chunk := file.read(HANDED_PIECE_BYTES):
            yield {"type": "layer_part", "data": base64.b64encode(chunk).decode("ascii")}
    yield {"type": "layer_mount", "tree": (site.parent / f"{PACK}.json").read_text("utf-8")}
