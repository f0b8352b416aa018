"""Unpacking a verified wheel into a folder that sandboxes read. It runs nothing, and writes nowhere else."""

from __future__ import annotations

import re
import shutil
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from belljar.errors import PackageError

MOST_FILES = 20_000
MOST_BYTES = 400_000_000
MOST_RATIO = 60  # unpacked to packed; honest wheels stay below 10
MOST_METADATA_BYTES = 4 << 20
DROPPED = (".pyi", ".pxd", ".pyx", ".pxi", ".h", ".hpp", ".c", ".cpp", ".a", ".lib", ".f90")
TESTS = ("tests", "test")
KEPT_OF_TESTS = ("__init__.py", "_natype.py")  # a package may import these of its own tests
_NEEDED = re.compile(r"(?im)^\s*requires-dist\s*:(.*(?:\n[ \t].*)*)")


@dataclass(frozen=True)
class Unpacked:
    """What a wheel brought: its import names and how many bytes."""

    modules: tuple[str, ...]
    size: int


def unpack(wheel: Path, site: Path) -> Unpacked:
    """Write what a wheel's packages need at run time.

    Raises:
        PackageError: for a broken archive, or a name, link, size or number that no honest wheel has.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = _checked(archive, wheel)
            size = sum(_write(archive, info, site / place) for info, place in members)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, FileExistsError, NotADirectoryError) as error:
        raise PackageError(f"{wheel.name} cannot be unpacked: {error}") from error
    places = [place for _, place in members]
    return Unpacked(tuple(sorted({name for place in places if (name := module_of(place))})), size)


def check_foreign(wheel: Path) -> None:
    """Look at a wheel that comes from no index: what is in it, and that it needs names alone, whoever reads that.

    Raises:
        PackageError: for what unpack() refuses, and when it needs something from an address.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            _checked(archive, wheel)
            for info in archive.infolist():
                if info.filename.lower().endswith(".dist-info/metadata"):
                    _check_needed(archive, info, wheel)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise PackageError(f"{wheel.name} cannot be read: {error}") from error


def is_needed(place: str) -> bool:
    """Whether a sandbox may ever read this file of a site folder."""
    *folders, name = place.split("/")
    if any(folder in TESTS for folder in folders):
        return name in KEPT_OF_TESTS
    return not name.endswith(DROPPED)


def module_of(place: str) -> str | None:
    """The import name that a file of a site folder belongs to."""
    first, _, rest = place.partition("/")
    if not rest:
        first, dot, kind = first.partition(".")
        return first if dot and kind.endswith(("py", "so")) and first.isidentifier() else None
    return first if first.isidentifier() and first != "__pycache__" else None


def _checked(archive: zipfile.ZipFile, wheel: Path) -> list[tuple[zipfile.ZipInfo, str]]:
    """The members to write and where, after every member was looked at."""
    infos = archive.infolist()
    size = sum(info.file_size for info in infos)
    if len(infos) > MOST_FILES or size > MOST_BYTES or size > MOST_RATIO * wheel.stat().st_size:
        raise PackageError(f"{wheel.name} is refused: {len(infos)} files of {size} bytes are too much for it")
    names = [info.filename for info in infos]
    if len({name.casefold() for name in names}) != len(names):
        raise PackageError(f"{wheel.name} is refused: it has a name twice")
    found = []
    for info in infos:
        _check(info, wheel)
        place = _place(info.filename)
        if not info.is_dir() and place is not None and is_needed(place):
            found.append((info, place))
    return found


def _check(info: zipfile.ZipInfo, wheel: Path) -> None:
    name = info.filename
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") or re.search(r"[\\:\x00-\x1f]", part) for part in parts):
        raise PackageError(f"{wheel.name} is refused: it has a file named {name!r}")
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise PackageError(f"{wheel.name} is refused: {name!r} is neither file nor folder")
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise PackageError(f"{wheel.name} is refused: {name!r} is encrypted or packed in an unusual way")


def _check_needed(archive: zipfile.ZipFile, info: zipfile.ZipInfo, wheel: Path) -> None:
    if info.file_size > MOST_METADATA_BYTES:
        raise PackageError(f"{wheel.name} is refused: its metadata has {info.file_size} bytes")
    text = archive.read(info).decode("utf-8", "replace").replace("\r", "\n")
    for needed in _NEEDED.findall(text):
        if "@" in needed.partition(";")[0]:
            shown = " ".join(needed.split())[:200]
            raise PackageError(f"{wheel.name} is refused: it needs {shown!r}, an address, and only names are followed")


def _place(name: str) -> str | None:
    """Where in a site folder a wheel's member goes; scripts, headers and data of the whole system go nowhere."""
    found = re.fullmatch(r"[^/]+\.data/(?:(purelib|platlib)/(.+)|.*)", name)
    return found[2] if found else name


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(info) as content, open(path, "xb") as file:
        shutil.copyfileobj(content, file)
    return info.file_size
