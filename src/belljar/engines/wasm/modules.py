"""The modules that restores instantiate: written to the runtime counted, for the rehearsal, and then in halves."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from belljar.engines.wasm import binary, split
from belljar.engines.wasm.rehearsal import MAIN

Calls = Mapping[str, Collection[int]]


@dataclass
class Modules:
    """The main module, and by snapshot the libraries in the order in which they are linked."""

    folder: Path
    main: bytes
    libraries: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)

    def collect(self, snapshot: str) -> None:
        """Take up the libraries of a snapshot that was just built, without their data, which the snapshot has."""
        found = []
        with open(self.folder / "packages.bin", "rb") as pack:
            for path, offset, length in json.loads((self.folder / f"{snapshot}.libraries.json").read_text()):
                pack.seek(offset)
                found.append((path, binary.without_data(pack.read(length))))
        self.libraries[snapshot] = found

    def paths(self, snapshot: str) -> list[str]:
        """Of its libraries."""
        return [path for path, _ in self.libraries[snapshot]]

    def write_counted(self) -> None:
        """For rehearsals. Nothing is cold in these."""
        counted = {snapshot: [split.counted(it) for _, it in found] for snapshot, found in self.libraries.items()}
        self._write(split.counted(self.main), counted, {snapshot: [] for snapshot in counted})

    def write_halves(self, called: Mapping[str, Calls]) -> None:
        """For sandboxes, by what was called from each snapshot. They have the main module in common."""
        main = split.halves(self.main, {k for calls in called.values() for k in calls[MAIN]}, 0)
        hot, cold = {}, {}
        for snapshot, calls in called.items():
            libraries = enumerate(self.libraries[snapshot], 1)
            parts = [split.halves(module, set(calls[path]), number) for number, (path, module) in libraries]
            hot[snapshot], cold[snapshot] = [it.hot for it in parts], [main.cold, *(it.cold for it in parts)]
        self._write(main.hot, hot, cold)

    def _write(self, main: bytes, hot: Mapping[str, list[bytes]], cold: Mapping[str, list[bytes]]) -> None:
        (self.folder / "restored.wasm").write_bytes(main)
        for snapshot, libraries in hot.items():
            places = self._write_all(f"{snapshot}.libraries.bin", libraries)
            named = [(path, *place) for path, place in zip(self.paths(snapshot), places, strict=True)]
            self._write_json(f"{snapshot}.libraries.json", named)
            self._write_json(f"{snapshot}.cold.json", self._write_all(f"{snapshot}.cold.bin", cold[snapshot]))

    def _write_all(self, name: str, modules: list[bytes]) -> list[tuple[int, int]]:
        """One after the other; the place and the length of each."""
        places, at = [], 0
        for module in modules:
            places.append((at, len(module)))
            at += len(module)
        (self.folder / name).write_bytes(b"".join(modules))
        return places

    def _write_json(self, name: str, content: object) -> None:
        (self.folder / name).write_text(json.dumps(content))
