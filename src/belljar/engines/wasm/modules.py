"""The modules that restores instantiate: linked ahead, written counted, for the rehearsal, and then in halves."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from belljar.engines.wasm import binary, split
from belljar.engines.wasm.binding import Bound, Places, bound_library, bound_main, main_slots
from belljar.engines.wasm.rehearsal import MAIN
from belljar.errors import StartFailed

Calls = Mapping[str, Collection[int]]
OF_LINKING = ("libraries", "librarySlots", "offsets")  # what no start needs of what was recorded


@dataclass
class Modules:
    """The main module, and by snapshot the libraries in the order in which they are linked."""

    folder: Path
    unbound: bytes
    late: Mapping[str, Mapping[str, int]]
    main: bytes | None = None
    libraries: dict[str, dict[str, Bound]] = field(default_factory=dict)

    def link(self, snapshot: str) -> None:
        """Link a snapshot that was just recorded, and write down what is left for a start to do.

        Raises:
            StartFailed: when it cannot be linked, or not to the same main module as the one before.
        """
        record = self.folder / f"{snapshot}.recorded.json"
        recorded = json.loads(record.read_text())
        record.unlink()
        places = Places(self.late, recorded)
        with _told_of("the main module"):
            main = bound_main(self.unbound, places)
            if self.main not in (None, main):
                raise StartFailed(f"in the snapshot {snapshot} it is linked differently from another's")
        found = {}
        for path, module in self._unbound_libraries(snapshot):
            with _told_of(path):
                found[path] = bound_library(module, path, places)
        self.main, self.libraries[snapshot] = main, found
        slots = set().union(*(main_slots(it.module) for it in found.values()))
        links = [{"path": path, "asked": it.asked, "given": it.given} for path, it in found.items()]
        restored = {name: value for name, value in recorded.items() if name not in OF_LINKING}
        self._write_json(f"{snapshot}.json", {**restored, "mainSlots": sorted(slots), "libraries": links})
        names = {path: {"functions": it.functions, "data": it.data} for path, it in found.items()}
        self._write_json(f"{snapshot}.late.json", {"offsets": recorded["offsets"], "libraries": names})

    def _unbound_libraries(self, snapshot: str) -> list[tuple[str, bytes]]:
        """Without their data, which the snapshot has."""
        found = []
        with open(self.folder / "packages.bin", "rb") as pack:
            for path, offset, length in json.loads((self.folder / f"{snapshot}.libraries.json").read_text()):
                pack.seek(offset)
                found.append((path, binary.without_data(pack.read(length))))
        return found

    def paths(self, snapshot: str) -> list[str]:
        """Of its libraries."""
        return list(self.libraries[snapshot])

    def write_counted(self) -> None:
        """For rehearsals. Nothing is cold in these."""
        counted = {
            snapshot: [split.counted(it.module) for it in found.values()] for snapshot, found in self.libraries.items()
        }
        self._write(split.counted(self._linked_main()), counted, {snapshot: [] for snapshot in counted})

    def write_halves(self, called: Mapping[str, Calls]) -> None:
        """For sandboxes, by what was called from each snapshot. They have the main module in common."""
        main = split.halves(self._linked_main(), {k for calls in called.values() for k in calls[MAIN]}, 0)
        hot, cold = {}, {}
        for snapshot, calls in called.items():
            libraries = enumerate(self.libraries[snapshot].items(), 1)
            parts = [split.halves(it.module, set(calls[path]), number) for number, (path, it) in libraries]
            hot[snapshot], cold[snapshot] = [it.hot for it in parts], [main.cold, *(it.cold for it in parts)]
        self._write(main.hot, hot, cold)

    def _linked_main(self) -> bytes:
        if self.main is None:
            raise StartFailed("there is no snapshot that a main module could be linked for")
        return self.main

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


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    try:
        yield
    except StartFailed as failure:
        raise StartFailed(f"{name} cannot be linked: {failure}") from None
