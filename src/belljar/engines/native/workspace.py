"""The workspace from the host's side: Linux resolves every path beneath one held descriptor; we never do."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from belljar.engines.native.pulling import Pulled
from belljar.entry import Entry, EntryType, Listing
from belljar.errors import DiskFull, FileError, FileMissing, FileTooLarge, PathRefused, SandboxClosed
from belljar_jail import linux
from belljar_kernel.files import UNFINISHED, is_unfinished
from belljar_kernel.protocol import LIST_LEVELS
from belljar_kernel.removal import remove

T = TypeVar("T")

RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08
PIECE_BYTES = 1 << 20

_libc = ctypes.CDLL(None)


class DescriptorWorkspace:
    """The files of one sandbox, through a descriptor of its folder."""

    def __init__(self, descriptor: int, owner: int | None) -> None:
        self.descriptor = descriptor
        self.owner = owner  # the host id that the sandbox's own files have; None when it is ours

    async def write(self, path: str, pieces: bytes | AsyncIterator[bytes]) -> None:
        """Create or replace a file, with its parents."""
        if isinstance(pieces, bytes):
            await self._off_loop(_write, path, (pieces,), self.owner)
            return
        with Pulled(pieces) as pulled:
            await self._off_loop(_write, path, pulled, self.owner)

    async def read(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """The content of a regular file, in pieces."""
        file, piece = await self._off_loop(_begin_read, path, max_bytes)
        try:
            while piece:
                yield piece
                max_bytes -= len(piece)
                is_last = len(piece) < PIECE_BYTES or not max_bytes
                piece = b"" if is_last else await asyncio.to_thread(os.read, file, min(max_bytes, PIECE_BYTES))
        finally:
            os.close(file)

    async def list(self, path: str, max_entries: int) -> Listing:
        """Everything beneath a folder; links are listed, not followed."""
        return await self._off_loop(_list, path, max_entries)

    async def delete(self, path: str) -> None:
        """Remove a file, a link or a folder with all it has."""
        await self._off_loop(_delete, path)

    def open_up(self) -> None:
        """Take back what code did to the folder's own permissions, so that the next can work in it."""
        with contextlib.suppress(OSError):
            os.fchmod(self.descriptor, 0o755)

    def close(self) -> None:
        """Let go of the folder."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    async def _off_loop(self, act: Callable[..., T], *args: object) -> T:
        """Work in a thread, on a descriptor of its own: the sandbox may be closed meanwhile."""
        if self.descriptor < 0:
            raise SandboxClosed("this sandbox was closed; its files are gone")
        return await asyncio.to_thread(_and_close, act, os.dup(self.descriptor), *args)


def _and_close(act: Callable[..., T], root: int, *args: object) -> T:
    try:
        return act(root, *args)
    finally:
        os.close(root)


def _write(root: int, path: str, pieces: Iterable[bytes], owner: int | None) -> None:
    with _spoken(path):
        *parents, name = path.split("/")
        with _as_user(owner):
            folder = _make_folders(root, parents)
        try:
            _replace(folder, name, pieces, owner)
        finally:
            os.close(folder)


def _make_folders(root: int, names: Sequence[str]) -> int:
    current = os.dup(root)
    try:
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=current)
            deeper = _open(current, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            os.close(current)
            current = deeper
    except OSError:
        os.close(current)
        raise
    return current


def _replace(folder: int, name: str, pieces: Iterable[bytes], owner: int | None) -> None:
    """Write beside the old file, then put it in its place, so that a full disk loses nothing."""
    fresh = f"{UNFINISHED}{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _as_user(owner):
        file = os.open(fresh, flags, 0o644, dir_fd=folder)
    try:
        for piece in pieces:  # as ourselves: they may come from a file that the sandbox's user cannot read
            view = memoryview(piece)
            while view:
                view = view[os.write(file, view) :]
        with _as_user(owner):
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise
    finally:
        os.close(file)


def _begin_read(root: int, path: str, max_bytes: int) -> tuple[int, bytes]:
    """A descriptor of a regular file, and its first piece."""
    with _spoken(path):
        file = _open(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            facts = os.fstat(file)
            if stat.S_ISDIR(facts.st_mode):
                raise PathRefused(f"{path!r} is a folder; list it, or name a file in it")
            if not stat.S_ISREG(facts.st_mode):
                raise PathRefused(f"{path!r} is not a regular file")
            if facts.st_size > max_bytes:
                raise FileTooLarge(f"{path!r} has {facts.st_size:,} bytes; at most {max_bytes:,} are read at once")
            return file, os.read(file, min(max_bytes, PIECE_BYTES))
        except BaseException:
            os.close(file)
            raise


def _list(root: int, path: str, max_entries: int) -> Listing:
    with _spoken(path or "."):
        folder = _open(root, path or ".", os.O_RDONLY | os.O_DIRECTORY)
        entries: Listing = []
        _walk(folder, f"{path}/" if path else "", entries, max_entries, LIST_LEVELS)
        return entries


def _delete(root: int, path: str) -> None:
    with _spoken(path):
        parent, _, name = path.rpartition("/")
        folder = _open(root, parent or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            remove(folder, name)
        finally:
            os.close(folder)


@contextlib.contextmanager
def _as_user(user: int | None) -> Iterator[None]:
    """Make files as the sandbox's own user, the only one that its file system knows; for this thread alone."""
    if user is None:
        yield
        return
    own_group, own_user = _libc.setfsgid(user), _libc.setfsuid(user)
    try:
        yield
    finally:
        _libc.setfsuid(own_user)
        _libc.setfsgid(own_group)


def _walk(folder: int, prefix: str, entries: list[Entry], room: int, depth: int) -> None:
    """List a folder that we hold, then close it."""
    try:
        with os.scandir(folder) as found:
            children = sorted(found, key=lambda entry: entry.name)
        for child in children:
            if is_unfinished(child.name):
                continue
            if len(entries) >= room:
                raise FileError(f"the folder has more than {room:,} entries; list a smaller one")
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # the guest takes things away meanwhile
                facts = child.stat(follow_symlinks=False)
                entries.append(Entry(prefix + child.name, _kind(facts.st_mode), facts.st_size, facts.st_mtime))
                if stat.S_ISDIR(facts.st_mode) and depth:
                    deeper = os.open(
                        child.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
                    )
                    _walk(deeper, f"{prefix}{child.name}/", entries, room, depth - 1)
    finally:
        os.close(folder)


def _open(folder: int, path: str, flags: int) -> int:
    """openat2 that never leaves `folder`, not even for a moment, and follows no magic link."""
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    return linux.syscall(
        "openat2", folder, ctypes.c_char_p(os.fsencode(path)), ctypes.c_char_p(how), ctypes.c_size_t(len(how))
    )


def _kind(mode: int) -> EntryType:
    kinds: dict[int, EntryType] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    return kinds.get(stat.S_IFMT(mode), "other")


@contextlib.contextmanager
def _spoken(path: str) -> Iterator[None]:
    """Say failures of the system in our own words."""
    try:
        yield
    except FileNotFoundError as failure:
        if isinstance(failure, FileError):
            raise
        raise FileMissing(f"there is no {path!r} in the workspace") from None
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"the workspace is full: {path!r} does not fit; delete files or raise disk_mb") from None
        if failure.errno in (errno.EXDEV, errno.ELOOP, errno.ENOTDIR):
            raise PathRefused(f"{path!r} leads out of the workspace, or through a link or a file") from None
        raise FileError(f"{path!r}: {failure.strerror}") from None
