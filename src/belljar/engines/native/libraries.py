"""The loader and the shared libraries that an executable needs, as this machine's own loader finds them."""

from __future__ import annotations

import functools
import os
import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from belljar.errors import StartFailed

_INTERPRETER = 3  # PT_INTERP
_FOUND = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)


@dataclass(frozen=True)
class Linkage:
    """Absolute paths; `loader` is None for an executable that needs none."""

    loader: str | None
    libraries: tuple[str, ...] = ()


def linkage(executable: Path) -> Linkage:
    """What an executable is linked with. The loader is asked; the executable itself does not run.

    Raises:
        StartFailed: when it is not an executable of this machine, or something that it needs is not here.
    """
    try:
        facts = executable.stat()
        return _ask(executable, facts.st_size, facts.st_mtime_ns)
    except (OSError, struct.error, subprocess.SubprocessError) as failure:
        raise StartFailed(f"{executable} could not be read as a program: {failure}") from failure


@functools.lru_cache(maxsize=16)
def _ask(executable: Path, size: int, modified: int) -> Linkage:  # noqa: ARG001 - another file is asked again
    loader = _loader(executable)
    if loader is None:
        return Linkage(None)
    done = subprocess.run([loader, "--list", str(executable)], capture_output=True, text=True, timeout=30, env={})
    if done.returncode or "not found" in done.stdout:
        raise StartFailed(f"{executable} lacks a library: {(done.stdout + done.stderr).strip()[-300:]}")
    found = [path for path in _FOUND.findall(done.stdout) if not os.path.samefile(path, loader)]
    return Linkage(loader, tuple(dict.fromkeys(found)))


def _loader(executable: Path) -> str | None:
    """The path in the program header that names the loader."""
    with open(executable, "rb") as file:
        header = file.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            raise StartFailed(f"{executable} is not a 64-bit program of this machine")
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        rows = file.read(size * count)
        for at in range(0, size * count, size):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", rows, at)
            if kind == _INTERPRETER:
                file.seek(offset)
                return file.read(length).rstrip(b"\0").decode()
    return None
