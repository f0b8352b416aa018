"""The files of a sandbox whose inside answers for them, between runs, by the `file_*` Requests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import reprlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from belljar.engines.base import Event, KernelExited
from belljar.entry import Entry, Listing
from belljar.errors import DiskFull, FileError, FileMissing, FileTooLarge, PathRefused, SandboxError
from belljar_kernel.files import UNFINISHED, is_unfinished
from belljar_kernel.protocol import FILE_PIECE_BYTES, PATH_CHARS

KINDS = ("file", "directory", "symlink", "other")
BAD_PARTS = ("", ".", "..")
LARGEST_SIZE = (1 << 63) - 1  # that a file system can have

Ask = Callable[[dict[str, Any]], Awaitable[Event]]


class KernelWorkspace:
    """Files by way of requests. What comes back is untrusted."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._writing = asyncio.Lock()
        self._clean: asyncio.Future[None] | None = None

    async def write(self, path: str, pieces: bytes | AsyncIterator[bytes]) -> None:
        """Create or replace a file, with its parents."""
        fresh = f"{UNFINISHED}{secrets.token_hex(6)}"
        coming = _parts(pieces)
        async with self._writing:
            try:
                part, number = await anext(coming, b""), 0
                while True:
                    following = await anext(coming, None)
                    await self._request(
                        "file_write", path, fresh=fresh, data=base64.b64encode(part).decode("ascii"),
                        append=number > 0, last=following is None,
                    )  # fmt: skip
                    if following is None:
                        return
                    part, number = following, number + 1
            except BaseException:  # the caller's iterator may raise anything
                folder, _, _ = path.rpartition("/")
                self._clean = asyncio.ensure_future(self._forget(f"{folder}/{fresh}".lstrip("/")))
                raise

    async def read(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """The content of a regular file, in pieces."""
        size = 0
        while True:
            answer = await self._request("file_read", path, offset=size, max=max_bytes)
            try:
                part = base64.b64decode(answer.get("data", ""), validate=True)
            except (TypeError, ValueError):
                raise _bad_answer(path, answer.get("data")) from None
            size += len(part)
            if size > max_bytes:
                raise FileTooLarge(f"{path!r} is larger than the {max_bytes:,} bytes that are read at once")
            if part:
                yield part
            if answer.get("end") is True:
                return
            if len(part) < FILE_PIECE_BYTES:
                raise _bad_answer(path, f"{len(part):,} bytes, and no end")

    async def list(self, path: str, max_entries: int) -> Listing:
        """Everything beneath a folder; links are listed, not followed."""
        answer = await self._request("file_list", path, max=max_entries)
        rows = answer.get("entries")
        try:
            if not isinstance(rows, list) or len(rows) > max_entries:
                raise ValueError
            entries = [_entry(*row) for row in rows]
            return [entry for entry in entries if not is_unfinished(entry.path.rpartition("/")[2])]
        except (TypeError, ValueError, OverflowError):
            raise _bad_answer(path, rows) from None

    async def delete(self, path: str) -> None:
        """Remove a file, a link or a folder with all it has."""
        await self._request("file_delete", path)

    async def _forget(self, path: str) -> None:
        """Take away what an upload left that did not come to its end."""
        with contextlib.suppress(SandboxError):
            await self.delete(path)

    async def _request(self, kind: str, path: str, **fields: object) -> Event:
        try:
            answer = await self._ask({"type": kind, "path": path, **fields})
        except KernelExited:
            raise FileError("the sandbox's Python ended while it was asked for its files; try again") from None
        failure = answer.get("failure")
        if failure is not None:
            raise _spoken(path, failure, answer)
        return answer


async def _parts(pieces: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cut bytes into pieces that a frame has room for."""
    if isinstance(pieces, bytes):
        for start in range(0, len(pieces), FILE_PIECE_BYTES):
            yield pieces[start : start + FILE_PIECE_BYTES]
        return
    async for piece in pieces:
        for start in range(0, len(piece), FILE_PIECE_BYTES):
            yield piece[start : start + FILE_PIECE_BYTES]


def _entry(path: str, kind: Any, size: int, modified: float) -> Entry:
    if (
        not isinstance(path, str)
        or len(path) > PATH_CHARS
        or not all(part not in BAD_PARTS for part in path.split("/"))
    ):
        raise ValueError(path)
    if kind not in KINDS or type(size) is not int or not 0 <= size <= LARGEST_SIZE:
        raise ValueError(kind)
    if type(modified) not in (int, float) or not math.isfinite(modified):
        raise ValueError(modified)
    return Entry(path, kind, size, float(modified))


def _bad_answer(path: str, answer: object) -> FileError:
    return FileError(
        f"{path!r}: the sandbox gave an answer about its files that makes no sense: {reprlib.repr(answer)}. "
        "Its own code may have tampered with it: restart it, or make a new one"
    )


def _spoken(path: str, failure: object, answer: Event) -> FileError:
    """The words that every engine has for it."""
    match failure:
        case "missing":
            return FileMissing(f"there is no {path!r} in the workspace")
        case "full":
            return DiskFull(f"the workspace is full: {path!r} does not fit; delete files or raise disk_mb")
        case "through":
            return PathRefused(f"{path!r} leads out of the workspace, or through a link or a file")
        case "folder":
            return PathRefused(f"{path!r} is a folder; list it, or name a file in it")
        case "special":
            return PathRefused(f"{path!r} is not a regular file")
        case "large":
            return FileTooLarge(f"{path!r} has more bytes than are read at once")
        case "deep":
            return PathRefused(f"{path[:80]!r} is too deep, or too long, for this engine")
        case "many":
            return FileError("the folder has more entries than are listed at once; list a smaller one")
    return FileError(f"{path!r}: {str(answer.get('detail'))[:200]}")
