"""Files of the caller's machine, in pieces, with failures in Belljar's words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from belljar.errors import FileError, FileMissing, InvalidRequest, SandboxError

PIECE_BYTES = 1 << 20


@contextlib.asynccontextmanager
async def pieces_of(local: Path) -> AsyncIterator[AsyncIterator[bytes]]:
    """Open a file of this machine for reading in pieces.

    Raises:
        FileError: when it cannot be read.
        InvalidRequest: when it is no regular file.
    """
    file = await asyncio.to_thread(_open, local)
    try:
        yield _pieces(file, local)
    finally:
        file.close()


def target_of(name: str, target: Path) -> Path:
    """Where a downloaded file goes: into a folder under its own name, else to the target itself."""
    with spoken(target):
        return target / name.rpartition("/")[2] if target.is_dir() else target


async def save(pieces: AsyncIterator[bytes], local: Path) -> None:
    """Write pieces beside the target, then put them in its place: what was there is not lost half way.

    Raises:
        FileError: when it cannot be written.
    """
    place = Path(os.path.realpath(local))
    with spoken(local):
        fresh = place.with_name(f".belljar-{os.urandom(6).hex()}") if place.is_file() or not place.exists() else place
        mode = stat.S_IMODE(place.stat().st_mode) & 0o777 if place.is_file() else None
        opener = partial(os.open, mode=0o666 if mode is None else 0o600)
        try:
            with await asyncio.to_thread(open, fresh, "wb", opener=opener) as file:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
            if mode is not None:  # who may read a file is its owner's to say
                fresh.chmod(mode)
            os.replace(fresh, place)
        finally:
            if fresh != place:
                fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def spoken(local: Path) -> Iterator[None]:
    """Say failures with a file of this machine in Belljar's words."""
    try:
        yield
    except SandboxError:
        raise
    except FileNotFoundError:
        raise FileMissing(f"there is no {local} on this machine; name a file, or a folder that is there") from None
    except OSError as failure:
        raise FileError(f"{local} on this machine: {failure.strerror}; check its permissions and its disk") from None


def _open(local: Path) -> IO[bytes]:
    with spoken(local):
        if not local.is_file() and local.exists():
            raise InvalidRequest(f"{local} is not a regular file; only those are uploaded")
        return open(local, "rb")


async def _pieces(file: IO[bytes], local: Path) -> AsyncIterator[bytes]:
    while True:
        with spoken(local):
            piece = await asyncio.to_thread(file.read, PIECE_BYTES)
        if not piece:
            return
        yield piece
