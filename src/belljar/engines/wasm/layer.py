"""A layer of packages on its way into a sandbox: packed when it is made, sent in pieces when somebody needs it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from belljar.engines.wasm.pack import Packing

PACK = "pack"
CHUNK_BYTES = 8 << 20


def pack_layer(folder: Path) -> None:
    """Pack the site folder of a layer that is being made."""
    with Packing(folder / PACK) as packing:
        packing.add_folder(folder / "site")


def layer_requests(site: Path | None) -> Iterator[dict[str, Any]]:
    """What mounts a layer in place of the last one; none at all for None."""
    if site is None:
        yield {"type": "layer_mount", "tree": None}
        return
    with open(site.parent / f"{PACK}.bin", "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield {"type": "layer_part", "data": base64.b64encode(chunk).decode("ascii")}
    yield {"type": "layer_mount", "tree": (site.parent / f"{PACK}.json").read_text("utf-8")}
