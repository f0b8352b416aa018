"""A folder of the operator's: loose files by their own names, the bundle wheel, or Pyodide's tarball."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from belljar.errors import PackageError
from belljar.packages.pins import Pin, Pins
from belljar.packages.progress import Progress
from belljar.packages.sources.archive import from_bundle, from_tarball
from belljar.packages.sources.base import NotSet, Unavailable, accept, in_short, missing


class Wheelhouse:
    """Files that are on this machine already."""

    name = "the wheelhouse"

    def __init__(self, folder: Path | None, pins: Pins) -> None:
        self._folder = folder
        self._pins = pins

    def fetch(self, wanted: Sequence[Pin], into: Path, progress: Progress) -> None:
        if self._folder is None:
            raise NotSet("none is set (BELLJAR_WHEELHOUSE)")
        if not self._folder.is_dir():
            raise Unavailable(f"{self._folder} is no folder")
        progress("Looking in the wheelhouse", None)
        folder, failures = self._folder, []
        steps: list[Callable[[], None]] = [
            lambda: self._loose(folder, wanted, into),
            lambda: self._archived(folder, [pin for pin in missing(wanted, into) if pin.in_bundle], into),
        ]
        for step in steps:
            try:
                step()
            except PackageError as error:
                failures.append(str(error))
        if left := missing(wanted, into):
            names = ", ".join(pin.name for pin in left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
            raise Unavailable(in_short([*failures, f"{folder} does not have {names}"]))

    def _loose(self, folder: Path, wanted: Sequence[Pin], into: Path) -> None:
        failures = []
        for pin in wanted:
            path = folder / pin.name
            if path.is_file():
                try:
                    with open(path, "rb") as file:
                        accept(pin, file.read, into, self.name)
                except PackageError as error:
                    failures.append(str(error))
        if failures:
            raise Unavailable(in_short(failures))

    def _archived(self, folder: Path, wanted: Sequence[Pin], into: Path) -> None:
        bundle, tarball = folder / self._pins.bundle.name, folder / self._pins.tarball.name
        if wanted and bundle.is_file():
            from_bundle(bundle, self._pins, wanted, into, self.name)
        elif tarball.is_file() and (core := [pin for pin in wanted if pin in self._pins.core]):
            from_tarball(tarball, self._pins, core, into, self.name)
