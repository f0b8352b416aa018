"""The files of a sandbox. Paths are the guest's: relative to /workspace, or beginning with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from belljar.checks import is_encodable
from belljar.engines.base import Listing, Workspace
from belljar.errors import FileError, FileMissing, InvalidRequest, PathRefused, SandboxClosed, SandboxError
from belljar.options import Content

if TYPE_CHECKING:
    from belljar.async_sandbox import AsyncSandbox
    from belljar.host.session import Session

T = TypeVar("T")

WORKSPACE = "/workspace"
MAX_PATH_BYTES, MAX_NAME_BYTES = 4096, 255
MAX_READ_BYTES = 256 << 20
MAX_ENTRIES = 10_000
PIECE_BYTES = 1 << 20


class AsyncFiles:
    """Files in and out of one sandbox."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def write(self, path: str, data: Content) -> None:
        """Create or replace a file, with its parents; text is written as UTF-8.

        Raises:
            FileError: when the path is refused or the workspace is full.
        """
        name, content = plain_path(path), as_bytes(path, data)
        await self._sandbox._there(lambda session: session.process.workspace.write(name, content))

    async def write_all(self, files: Mapping[str, Content]) -> dict[str, SandboxError]:
        """Write several files, each whatever becomes of the others; the failures by path, none when all was written."""
        if not isinstance(files, Mapping):
            raise InvalidRequest(f"files must map paths to content, not {type(files).__name__}")
        tried = {path: await _outcome(self.write(path, data)) for path, data in files.items()}
        return {path: outcome for path, outcome in tried.items() if isinstance(outcome, SandboxError)}

    async def read(self, path: str) -> bytes:
        """The bytes of a file.

        Raises:
            FileError: when it is missing, too large, or not a regular file of the workspace.
        """
        name = plain_path(path)
        return await self._sandbox._there(
            lambda session: session.process.workspace.read(name, MAX_READ_BYTES), changes=False
        )

    async def read_all(self, paths: Iterable[str]) -> dict[str, bytes | SandboxError]:
        """The bytes of several files by path; of one that could not be read, why."""
        if isinstance(paths, str | bytes):
            raise InvalidRequest("paths must be a list of paths, not one; use read() for one file")
        return {path: await _outcome(self.read(path)) for path in paths}

    async def list(self, path: str = "") -> Listing:
        """Everything beneath a folder; links are listed, not followed."""
        name = "" if path in ("", ".", WORKSPACE, f"{WORKSPACE}/") else plain_path(path)
        return await self._sandbox._there(
            lambda session: session.process.workspace.list(name, MAX_ENTRIES), changes=False
        )

    async def delete(self, path: str) -> None:
        """Remove a file, a link, or a folder with all it has."""
        name = plain_path(path)
        await self._sandbox._there(lambda session: session.process.workspace.delete(name))

    async def upload(self, source: str | Path, path: str | None = None) -> None:
        """Copy a file of this machine into the workspace, under its own name unless told otherwise.

        It goes in pieces, so a large one takes no more memory than a small one.
        """
        local = Path(source)
        name = plain_path(local.name if path is None else path)
        await self._sandbox._there(lambda session: _upload(session.process.workspace, local, name))

    async def download(self, path: str, target: str | Path) -> Path:
        """Copy a file of the workspace to this machine; a folder as target keeps the file's name.

        It comes in pieces, and is there as a whole or not at all.
        """
        name, local = plain_path(path), Path(target)
        with _spoken(local):
            if local.is_dir():
                local = local / name.rpartition("/")[2]
        await self._sandbox._there(lambda session: _download(session, name, local), changes=False)
        return local


class Files:
    """The synchronous face of AsyncFiles."""

    def __init__(self, core: AsyncFiles, wait: Callable[[Any], Any]) -> None:
        self._core = core
        self._wait = wait

    def write(self, path: str, data: Content) -> None:
        """See AsyncFiles.write."""
        self._wait(self._core.write(path, data))

    def write_all(self, files: Mapping[str, Content]) -> dict[str, SandboxError]:
        """See AsyncFiles.write_all."""
        failures: dict[str, SandboxError] = self._wait(self._core.write_all(files))
        return failures

    def read(self, path: str) -> bytes:
        """See AsyncFiles.read."""
        data: bytes = self._wait(self._core.read(path))
        return data

    def read_all(self, paths: Iterable[str]) -> dict[str, bytes | SandboxError]:
        """See AsyncFiles.read_all."""
        found: dict[str, bytes | SandboxError] = self._wait(self._core.read_all(paths))
        return found

    def list(self, path: str = "") -> Listing:
        """See AsyncFiles.list."""
        entries: Listing = self._wait(self._core.list(path))
        return entries

    def delete(self, path: str) -> None:
        """See AsyncFiles.delete."""
        self._wait(self._core.delete(path))

    def upload(self, source: str | Path, path: str | None = None) -> None:
        """See AsyncFiles.upload."""
        self._wait(self._core.upload(source, path))

    def download(self, path: str, target: str | Path) -> Path:
        """See AsyncFiles.download."""
        local: Path = self._wait(self._core.download(path, target))
        return local


async def _upload(workspace: Workspace, local: Path, name: str) -> None:
    file = await asyncio.to_thread(_open_local, local)
    try:
        await workspace.write_from(name, _pieces(file, local))
    finally:
        file.close()


def _open_local(local: Path) -> IO[bytes]:
    with _spoken(local):
        if not local.is_file() and local.exists():
            raise InvalidRequest(f"{local} is not a regular file; only those are uploaded")
        return open(local, "rb")


def _pieces(file: IO[bytes], local: Path) -> Iterator[bytes]:
    while True:
        with _spoken(local):
            piece = file.read(PIECE_BYTES)
        if not piece:
            return
        yield piece


async def _download(session: Session, name: str, local: Path) -> None:
    """Write beside the target, then put it in its place, so that what was there is not lost half way."""
    largest = session.spec.limits.disk_mb << 20
    place = Path(os.path.realpath(local))
    with _spoken(local):
        fresh = place.with_name(f".belljar-{os.urandom(6).hex()}") if place.is_file() or not place.exists() else place
        mode = stat.S_IMODE(place.stat().st_mode) & 0o777 if place.is_file() else None
        opener = partial(os.open, mode=0o666 if mode is None else 0o600)
        try:
            with await asyncio.to_thread(open, fresh, "wb", opener=opener) as file:
                await session.process.workspace.read_into(name, largest, partial(_write_local, file, local))
            if mode is not None:  # who may read it is for whoever made it to say
                fresh.chmod(mode)
            os.replace(fresh, place)
        finally:
            if fresh != place:
                fresh.unlink(missing_ok=True)


def _write_local(file: IO[bytes], local: Path, piece: bytes) -> None:
    with _spoken(local):
        file.write(piece)


@contextlib.contextmanager
def _spoken(local: Path) -> Iterator[None]:
    """Say failures with a file of this machine in our own words."""
    try:
        yield
    except SandboxError:
        raise
    except FileNotFoundError:
        raise FileMissing(f"there is no {local} on this machine; name a file, or a folder that is there") from None
    except OSError as failure:
        raise FileError(f"{local} on this machine: {failure.strerror}; check its permissions and its disk") from None


async def _outcome(act: Awaitable[T]) -> T | SandboxError:
    """What came of it, or why nothing did; that the sandbox is gone is no affair of one file."""
    try:
        return await act
    except SandboxClosed:
        raise
    except SandboxError as failure:
        return failure


def plain_path(path: str) -> str:
    """A path within the workspace, without any way out of it.

    Raises:
        PathRefused: for everything else.
    """
    if not isinstance(path, str):
        raise PathRefused(f"a path must be a string, not {type(path).__name__}")
    inner = path.removeprefix(f"{WORKSPACE}/") if path.startswith("/") else path
    parts = [part for part in inner.split("/") if part not in ("", ".")]
    if inner.startswith("/"):
        raise PathRefused(f"{path!r} is outside {WORKSPACE}; name a file in it")
    if not parts:
        raise PathRefused(f"{path!r} names no file")
    if ".." in parts:
        raise PathRefused(f"{path!r} leaves the workspace; paths may not have '..'")
    if "\0" in path or ".." in path.replace("\\", "/").split("/"):
        raise PathRefused(f"{path!r} is not a path")
    encoded = [part.encode("utf-8", "surrogateescape") if is_encodable(part) else b"" for part in parts]
    if not all(encoded) or max(map(len, encoded)) > MAX_NAME_BYTES or len(b"/".join(encoded)) >= MAX_PATH_BYTES:
        raise PathRefused(f"the path {path[:80]!r} is too long, or cannot be written as bytes")
    return "/".join(parts)


def as_bytes(path: str, data: object) -> bytes:
    """Content as bytes; text as UTF-8."""
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as failure:
            raise InvalidRequest(f"the text for {path!r} cannot be written as UTF-8: {failure.reason}") from None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise InvalidRequest(f"the content of {path!r} must be text or bytes, not {type(data).__name__}")


def checked_files(files: Mapping[str, Content] | None) -> dict[str, bytes]:
    """Files to write before anything runs, all checked before the first is written."""
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise InvalidRequest(f"files must map paths to content, not {type(files).__name__}")
    return {plain_path(path): as_bytes(path, data) for path, data in files.items()}
