"""The modules that restores instantiate: written to the runtime counted, for the rehearsal, and then in halves."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
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

    def write_counted(self) -> None:
        """For rehearsals."""
        self._write(lambda _snapshot, _path, module, _number: split.Halves(split.counted(module), b""))

    def write_halves(self, called: Mapping[str, Calls]) -> None:
        """For sandboxes, by what was called from each snapshot. They have the main module in common."""
        of_main = {number for calls in called.values() for number in calls[MAIN]}

        def halves(snapshot: str, path: str, module: bytes, number: int) -> split.Halves:
            return split.halves(module, of_main if path == MAIN else set(called[snapshot][path]), number)

        self._write(halves)

    def _write(self, part: Callable[[str, str, bytes, int], split.Halves]) -> None:
        main = part("", MAIN, self.main, 0)
        (self.folder / "restored.wasm").write_bytes(main.hot)
        for snapshot, libraries in self.libraries.items():
            parts = [part(snapshot, path, module, number) for number, (path, module) in enumerate(libraries, 1)]
            hot = self._write_all(f"{snapshot}.libraries.bin", [halves.hot for halves in parts])
            cold = self._write_all(f"{snapshot}.cold.bin", [main.cold, *(halves.cold for halves in parts)])
            named = [(path, *place) for (path, _), place in zip(libraries, hot, strict=True)]
            self._write_json(f"{snapshot}.libraries.json", named)
            self._write_json(f"{snapshot}.cold.json", cold)

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
