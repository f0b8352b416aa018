"""What a source does, and the one door through which its bytes come in: checked against the pin, or refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from belljar.errors import PackageError
from belljar.packages.pins import Pin
from belljar.packages.progress import Progress

CHUNK = 1 << 18


class Unavailable(PackageError):
    """A source does not have something, or cannot be reached."""


class NotSet(Unavailable):
    """A source that nobody set up, or whose address is not known yet."""


class Refused(PackageError):
    """A source has something else under a pinned name."""


class Source(Protocol):
    """One place that may have pinned files."""

    @property
    def name(self) -> str: ...

    def fetch(self, wanted: Sequence[Pin], into: Path, progress: Progress) -> None:
        """Put into a folder, named absolutely, what it has of the wanted files.

        Raises:
            Unavailable: with the reason, when some are still missing; the others are there.
        """


def accept(
    pin: Pin, read: Callable[[int], bytes], into: Path, source: str, moved: Callable[[int], None] = lambda _: None
) -> None:
    """Copy one file into a folder; it gets its name only when size and sha256 are the pinned ones.

    Raises:
        Refused: naming file and source.
    """
    part = into / f"{pin.name}.part"
    found = hashlib.sha256()
    size = 0
    try:
        with open(part, "wb") as file:
            while size <= pin.size and (chunk := read(CHUNK)):
                found.update(chunk)
                size += len(chunk)
                file.write(chunk)
                moved(len(chunk))
        if size != pin.size:
            what = f"more than {pin.size}" if size > pin.size else f"{size} instead of {pin.size}"
            raise Refused(f"{pin.name} from {source} is refused: it has {what} bytes")
        if found.hexdigest() != pin.sha256:
            raise Refused(
                f"{pin.name} from {source} is refused: its sha256 is {found.hexdigest()}, and must be {pin.sha256}"
            )
        os.replace(part, into / pin.name)
    finally:
        part.unlink(missing_ok=True)


def is_intact(pin: Pin, path: Path) -> bool:
    """Whether a file is the pinned one, to the byte."""
    if not path.is_file() or path.stat().st_size != pin.size:
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == pin.sha256


def missing(wanted: Iterable[Pin], folder: Path) -> list[Pin]:
    """What a folder that `accept` fills does not have yet."""
    return [pin for pin in wanted if not (folder / pin.name).exists()]


def take_each(wanted: Sequence[Pin], take: Callable[[Pin], None]) -> None:
    """Take one file after another; one that fails does not keep the others back.

    Raises:
        Unavailable: with what was wrong with the first few.
    """
    failures = []
    for pin in wanted:
        try:
            take(pin)
        except PackageError as error:
            failures.append(str(error))
    if failures:
        raise Unavailable(in_short(failures))


def in_short(failures: Sequence[str]) -> str:
    """A few reasons in one line; refusals first, because they matter most."""
    ordered = sorted(failures, key=lambda text: "refused" not in text)
    more = f"; and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return "; ".join(ordered[:3]) + more


def megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
