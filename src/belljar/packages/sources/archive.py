"""Pinned files inside a pinned archive: the bundle wheel or Pyodide's own tarball. Nothing else is taken out."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from belljar.packages.pins import Pin, Pins
from belljar.packages.sources.base import Refused, Unavailable, accept, is_intact, take_each


def from_bundle(bundle: Path, pins: Pins, wanted: Sequence[Pin], into: Path, source: str) -> None:
    """Take wanted files out of the bundle wheel.

    Raises:
        Unavailable: with what was not there or not as pinned.
    """
    _check(pins.bundle, bundle, source)
    with zipfile.ZipFile(bundle) as archive:

        def take(pin: Pin) -> None:
            try:
                member = archive.open(f"{pins.bundle_folder}/{pin.name}")
            except KeyError:
                raise Unavailable(f"{pin.name} is not in {bundle.name}") from None
            with member:
                accept(pin, member.read, into, source)

        take_each(wanted, take)


def from_tarball(tarball: Path, pins: Pins, wanted: Sequence[Pin], into: Path, source: str) -> None:
    """Take wanted files out of Pyodide's own tarball.

    Raises:
        Unavailable: with what was not there or not as pinned.
    """
    _check(pins.tarball, tarball, source)
    with tarfile.open(tarball, "r:gz") as archive:
        members = {member.name: member for member in archive.getmembers() if member.isfile()}

        def take(pin: Pin) -> None:
            member = members.get(f"package/{pin.name}")
            content = archive.extractfile(member) if member else None
            if content is None:
                raise Unavailable(f"{pin.name} is not in {tarball.name}")
            with content:
                accept(pin, content.read, into, source)

        take_each(wanted, take)


def _check(pin: Pin, path: Path, source: str) -> None:
    """An archive is opened only when it is the pinned one."""
    if not is_intact(pin, path):
        raise Refused(f"{pin.name} from {source} is refused: its size or sha256 is not the pinned one ({pin.sha256})")
