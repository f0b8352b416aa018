"""The package index that the user's pip is set up for: the bundle wheel, and wheels that it has itself."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from belljar.errors import PackageError
from belljar.packages import pip
from belljar.packages.pins import Pin, Pins
from belljar.packages.progress import Progress, part_of
from belljar.packages.sources.archive import from_bundle
from belljar.packages.sources.base import Unavailable, accept, in_short, missing, take_each


class Index:
    """One download of the bundle brings nearly everything; what it lacks comes by name and version."""

    name = "the package index"

    def __init__(self, pins: Pins) -> None:
        self._pins = pins

    def fetch(self, wanted: Sequence[Pin], into: Path, progress: Progress) -> None:
        failures = []
        scratch = into / "index"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            if any(pin.in_bundle and not pin.on_index for pin in wanted):
                bundled = [pin for pin in wanted if pin.in_bundle]
                try:
                    self._bundled(bundled, into, scratch / "bundle", part_of(progress, 0.0, 0.9))
                except PackageError as error:
                    failures.append(str(error))
            singles = [pin for pin in missing(wanted, into) if pin.on_index]
            if singles:
                try:
                    self._singly(singles, into, scratch / "wheels", part_of(progress, 0.9, 1.0))
                except PackageError as error:
                    failures.append(str(error))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if left := missing(wanted, into):
            raise Unavailable(in_short(failures or [f"it does not have {left[0].name}"]))

    def _bundled(self, wanted: Sequence[Pin], into: Path, scratch: Path, progress: Progress) -> None:
        bundle = self._pins.bundle
        # Any CPython that the bundle's own project supports: nothing of it is run.
        options = ["--python-version", "3.12", "--only-binary", ":all:"]
        pip.download([bundle.requirement], options, scratch, bundle.size, progress, "Pyodide with its packages")
        found = scratch / bundle.name
        if not found.is_file():
            raise Unavailable(f"it did not give {bundle.name}")
        progress("Checking what was downloaded", 1.0)
        from_bundle(found, self._pins, wanted, into, self.name)

    def _singly(self, wanted: Sequence[Pin], into: Path, scratch: Path, progress: Progress) -> None:
        size = sum(pin.size for pin in wanted)
        pip.download([pin.requirement for pin in wanted], pip.FOR_WASM, scratch, size, progress, "more packages")

        def take(pin: Pin) -> None:
            try:
                with open(scratch / pin.name, "rb") as file:
                    accept(pin, file.read, into, self.name)
            except FileNotFoundError:
                raise Unavailable(f"it did not give {pin.name}") from None

        take_each(wanted, take)
