"""The files of a sandbox. Paths are the guest's: relative to /workspace, or beginning with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar.checks import is_encodable
from belljar.engines.base import Listing
from belljar.errors import FileTooLarge, InvalidRequest, PathRefused
from belljar.options import Content

if TYPE_CHECKING:
    from belljar.sandbox import AsyncSandbox

WORKSPACE = "/workspace"
MAX_PATH_BYTES, MAX_NAME_BYTES = 4096, 255
MAX_READ_BYTES = 256 << 20
MAX_ENTRIES = 10_000


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

    async def read(self, path: str) -> bytes:
        """The bytes of a file.

        Raises:
            FileError: when it is missing, too large, or not a regular file of the workspace.
        """
        name = plain_path(path)
        return await self._sandbox._there(
            lambda session: session.process.workspace.read(name, MAX_READ_BYTES), changes=False
        )

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
        """Copy a file of this machine into the workspace, under its own name unless told otherwise."""
        local = Path(source)
        data = await self._sandbox._there(lambda _: asyncio.to_thread(_read_local, local))
        await self.write(local.name if path is None else path, data)

    async def download(self, path: str, target: str | Path) -> Path:
        """Copy a file of the workspace to this machine; a folder as target keeps the file's name."""
        data = await self.read(path)
        local = Path(target)
        if local.is_dir():
            local = local / plain_path(path).rpartition("/")[2]
        await self._sandbox._there(lambda _: asyncio.to_thread(local.write_bytes, data))
        return local


class Files:
    """The synchronous face of AsyncFiles."""

    def __init__(self, core: AsyncFiles, wait: Callable[[Any], Any]) -> None:
        self._core = core
        self._wait = wait

    def write(self, path: str, data: Content) -> None:
        """See AsyncFiles.write."""
        self._wait(self._core.write(path, data))

    def read(self, path: str) -> bytes:
        """See AsyncFiles.read."""
        data: bytes = self._wait(self._core.read(path))
        return data

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


def _read_local(local: Path) -> bytes:
    if not local.is_file() and local.exists():
        raise InvalidRequest(f"{local} is not a regular file; only those are uploaded")
    size = local.stat().st_size
    if size > MAX_READ_BYTES:
        raise FileTooLarge(f"{local.name} has {size:,} bytes; at most {MAX_READ_BYTES:,} are uploaded at once")
    return local.read_bytes()


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
