"""The files of a sandbox. Paths are those that code inside uses: relative to /workspace, or beginning with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from belljar import local_files
from belljar.entry import Listing
from belljar.errors import InvalidRequest, SandboxClosed, SandboxError
from belljar.pieces import whole
from belljar.validation import Content, as_bytes, plain_path
from belljar_kernel.protocol import WORKSPACE

if TYPE_CHECKING:
    from belljar.service.base import Service

T = TypeVar("T")

MAX_READ_BYTES = 256 << 20

Act = Callable[..., Awaitable[Any]]  # of a service, beginning with owner and id
There = Callable[..., Awaitable[Any]]  # calls an act on the background loop, with the sandbox's owner and id


class AsyncFiles:
    """Files in and out of one sandbox."""

    def __init__(self, service: Service, there: There) -> None:
        self._service = service
        self._there = there

    async def write(self, path: str, data: Content) -> None:
        """Create or replace a file, with its parents; text is written as UTF-8.

        Raises:
            FileError: when the path is refused or the workspace is full.
        """
        name = plain_path(path)
        await self._there(self._service.write_file, name, as_bytes(path, data))

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
        data: bytes = await self._there(self._read, plain_path(path))
        return data

    async def read_all(self, paths: Iterable[str]) -> dict[str, bytes | SandboxError]:
        """The bytes of several files by path; of one that could not be read, why."""
        if isinstance(paths, str | bytes):
            raise InvalidRequest("paths must be a list of paths, not one; use read() for one file")
        return {path: await _outcome(self.read(path)) for path in paths}

    async def list(self, path: str = "") -> Listing:
        """Everything beneath a folder; links are listed, not followed."""
        name = "" if path in ("", ".", WORKSPACE, f"{WORKSPACE}/") else plain_path(path)
        entries: Listing = await self._there(self._service.list_files, name)
        return entries

    async def delete(self, path: str) -> None:
        """Remove a file, a link, or a folder with all it has."""
        await self._there(self._service.delete_file, plain_path(path))

    async def upload(self, source: str | Path, path: str | None = None) -> None:
        """Copy a file of this machine into the workspace, under its own name unless `path` is given.

        It goes in pieces, so a large one takes no more memory than a small one.
        """
        local = Path(source)
        await self._there(self._upload, plain_path(local.name if path is None else path), local)

    async def download(self, path: str, target: str | Path) -> Path:
        """Copy a file of the workspace to this machine; a folder as target keeps the file's name.

        It comes in pieces, and is there as a whole or not at all.
        """
        name = plain_path(path)
        local = local_files.target_of(name, Path(target))
        await self._there(self._download, name, local)
        return local

    async def _read(self, owner: str, id: str, path: str) -> bytes:
        async with aclosing(self._service.read_file(owner, id, path, MAX_READ_BYTES)) as pieces:
            return await whole(pieces)

    async def _upload(self, owner: str, id: str, path: str, local: Path) -> None:
        async with local_files.pieces_of(local) as pieces:
            await self._service.write_file(owner, id, path, pieces)

    async def _download(self, owner: str, id: str, path: str, local: Path) -> None:
        async with aclosing(self._service.read_file(owner, id, path)) as pieces:  # also when the disk here is full
            await local_files.save(pieces, local)


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


async def _outcome(act: Awaitable[T]) -> T | SandboxError:
    """What an act on one file returned, or its failure. A sandbox that is gone ends the whole call."""
    try:
        return await act
    except SandboxClosed:
        raise
    except SandboxError as failure:
        return failure
