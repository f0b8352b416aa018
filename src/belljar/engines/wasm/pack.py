"""Writes a pack: many files in one, `name.bin`, and where each of them is, `name.json`.

The folders at the top are texts in that: to parse all of them takes 8 ms, and a sandbox begins with few.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

ALIGNED_FROM = 4096  # libraries and data are read whole: on a boundary that is kind to whoever maps them
BYTECODE_TAG = "cpython-314"


class Packing:
    """A pack that is being written."""

    def __init__(self, path: Path) -> None:
        self._index = path.with_name(f"{path.name}.json")
        self._file = open(path.with_name(f"{path.name}.bin"), "wb")  # noqa: SIM115 -- closed by __exit__
        self._tree: dict[str, Any] = {}
        self._offset = 0

    def __enter__(self) -> Packing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._file.close()
        if error is None:
            tops = {name: top if isinstance(top, list) else _json(top) for name, top in self._tree.items()}
            self._index.write_text(_json(tops), encoding="utf-8")

    def add(self, parts: tuple[str, ...], content: bytes) -> None:
        """One file."""
        if len(content) >= ALIGNED_FROM:
            padding = -self._offset % 16
            self._file.write(bytes(padding))
            self._offset += padding
        folder = self._tree
        for part in parts[:-1]:
            folder = folder.setdefault(part, {})
        folder[parts[-1]] = [self._offset, len(content)]
        self._file.write(content)
        self._offset += len(content)

    def add_folder(self, root: Path, beneath: tuple[str, ...] = (), largest: int | None = None) -> None:
        """Every file of a folder that is not too large; compiled modules are another interpreter's and stay out."""
        for path in sorted(root.rglob("*")):
            parts = path.relative_to(root).parts
            if path.is_file() and "__pycache__" not in parts and (largest is None or path.stat().st_size <= largest):
                self.add((*beneath, *parts), path.read_bytes())

    def add_compiled(self, compiled: Path) -> None:
        """What `compile.ts` wrote: modules, each behind a line with its path and its length."""
        with open(compiled, "rb") as file:
            while line := file.readline():
                path, length = json.loads(line)
                *folders, name = path.split("/")
                self.add((*folders, "__pycache__", f"{name.removesuffix('.py')}.{BYTECODE_TAG}.pyc"), file.read(length))


def _json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))
