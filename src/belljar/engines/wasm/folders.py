"""Folders of this machine, looked at on behalf of a sandbox. Every path is walked by descriptor and through no link.

Links are reported to the inside, which follows them within itself. Only regular files are opened. All of it blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from belljar.egress.shares import of_descriptors
from belljar.errors import StartFailed
from belljar_kernel.protocol import MOUNT_PIECE_BYTES

FEWEST_FILES, MOST_FILES = 16, 256
SHARE = 32  # of the files that this process may open, one in so many
ROWS, ROWS_BYTES = 2000, 256 << 10  # of one answer
DEEPEST = 256
FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
WALK = FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
IS_POSSIBLE = os.open in os.supports_dir_fd and os.scandir in os.supports_fd  # not on Windows
FAILURES = {
    errno.ENOENT: "missing", errno.ENOTDIR: "missing", errno.ENAMETOOLONG: "missing", errno.ELOOP: "link",
    errno.EACCES: "refused", errno.EPERM: "refused", errno.EXDEV: "refused", errno.EMFILE: "many",
    errno.ENFILE: "many", errno.EBADF: "handle",
}  # fmt: skip

Question = dict[str, Any]
Head = dict[str, Any]
Row = tuple[str, str, int, float, str]


class Folders:
    """Some folders, and what is open in them."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._roots: list[int] = []
        self._files: dict[int, int] = {}
        self._listing: Listing | None = None
        self._last = 0
        self.most_files = of_descriptors(SHARE, FEWEST_FILES, MOST_FILES)
        for folder in folders:
            try:
                self._roots.append(_walk(os.open("/", WALK), [part for part in folder.split("/") if part], True))
            except OSError as failure:
                self.close()
                raise StartFailed(f"{folder} cannot be shown to the sandbox: {failure.strerror}") from failure

    def again(self) -> Folders:
        """These folders again, wherever they have been moved meanwhile, with nothing open in them."""
        copy = Folders(())
        copy._roots += [os.dup(root) for root in self._roots]
        return copy

    def answer(self, question: Question) -> tuple[Head, bytes]:
        """Facts, and bytes if it asks for some; a failure is a word."""
        try:
            match question.get("act"):
                case "look":
                    return {"facts": self._look(question)}, b""
                case "list":
                    return self._list(question), b""
                case "more":
                    return self._more(_whole(question["handle"])), b""
                case "open":
                    return {"handle": self._open(question)}, b""
                case "size":
                    return {"facts": _facts(os.fstat(self._file(question)))}, b""
                case "read":
                    size = min(_whole(question["size"]), MOUNT_PIECE_BYTES)
                    return {}, os.pread(self._file(question), size, _whole(question["offset"]))
                case "close":
                    os.close(self._files.pop(_whole(question["handle"])))
                    return {}, b""
        except OSError as failure:
            return {"failure": FAILURES.get(failure.errno or 0, "failed")}, b""
        except (LookupError, TypeError, ValueError, OverflowError):
            pass
        return {"failure": "failed"}, b""

    def close(self) -> None:
        """Let go of all."""
        self._end_listing()
        for held in (*self._files.values(), *self._roots):
            os.close(held)
        self._files.clear()
        self._roots.clear()

    def _look(self, question: Question) -> tuple[str, int, float, str]:
        with self._place(question) as (folder, name):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            _check_device(folder, facts)
            return _facts(facts, os.readlink(name, dir_fd=folder) if stat.S_ISLNK(facts.st_mode) else "")

    def _list(self, question: Question) -> Head:
        """Begin a listing. One that was begun before ends."""
        self._end_listing()
        with self._place(question) as (folder, name):
            opened = _opened(name, os.O_RDONLY | FOLDER, folder, stat.S_IFDIR)
        self._listing = Listing(opened, self._number())
        return self._more(self._listing.handle)

    def _more(self, handle: int) -> Head:
        listing = self._listing
        if listing is None or listing.handle != handle:
            raise ValueError(handle)
        try:
            rows = listing.rows()
        except BaseException:
            self._end_listing()
            raise
        if listing.is_over:
            self._end_listing()
        return {"rows": rows, "handle": None if listing.is_over else handle}

    def _end_listing(self) -> None:
        ended, self._listing = self._listing, None
        if ended is not None:
            ended.close()

    def _open(self, question: Question) -> int:
        if len(self._files) >= self.most_files:
            raise OSError(errno.EMFILE, "too many open files")
        with self._place(question) as (folder, name):
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise PermissionError(errno.EACCES, "not a regular file")
            opened = _opened(name, READ, folder, stat.S_IFREG)
        handle = self._number()
        self._files[handle] = opened
        return handle

    @contextlib.contextmanager
    def _place(self, question: Question) -> Iterator[tuple[int, str]]:
        """The folder that something lies in, held, and its name there."""
        root, path = self._roots[_whole(question["mount"])], question["path"]
        if not isinstance(path, str) or path.count("/") >= DEEPEST:
            raise ValueError(path)
        *parts, name = path.split("/") if path else ["."]
        if any(part in ("", ".", "..") for part in parts) or (path and name in ("", ".", "..")):
            raise ValueError(path)
        folder = _walk(os.dup(root), parts)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def _number(self) -> int:
        self._last += 1
        return self._last

    def _file(self, question: Question) -> int:
        return self._files[_whole(question["handle"])]


class Listing:
    """A folder that is being listed, however many there are in it."""

    def __init__(self, folder: int, handle: int) -> None:
        self.handle = handle
        self.is_over = False
        self._folder = folder
        try:
            self._entries = os.scandir(folder)
        except BaseException:
            os.close(folder)
            raise

    def rows(self) -> list[Row]:
        """The next of them."""
        rows: list[Row] = []
        size = 0
        while len(rows) < ROWS and size < ROWS_BYTES:
            entry = next(self._entries, None)
            if entry is None:
                self.is_over = True
                break
            with contextlib.suppress(FileNotFoundError):  # taken away meanwhile
                facts = entry.stat(follow_symlinks=False)
                target = os.readlink(entry.name, dir_fd=self._folder) if stat.S_ISLNK(facts.st_mode) else ""
                rows.append((entry.name, *_facts(facts, target)))
                size += 100 + 6 * (len(entry.name) + len(target))  # as JSON, at the most
        return rows

    def close(self) -> None:
        """Let go of it."""
        self._entries.close()
        os.close(self._folder)


def _walk(folder: int, parts: list[str], anywhere: bool = False) -> int:
    """Go down from a folder that is held, and let go of it; unless `anywhere`, to no other file system."""
    try:
        for part in parts:
            deeper = os.open(part, WALK, dir_fd=folder) if anywhere else _opened(part, WALK, folder, stat.S_IFDIR)
            os.close(folder)
            folder = deeper
    except BaseException:
        os.close(folder)
        raise
    return folder


def _opened(name: str, flags: int, folder: int, kind: int) -> int:
    """Something of a folder, if it still is what it was a moment ago, and on the same file system."""
    opened = os.open(name, flags | getattr(os, "O_CLOEXEC", 0), dir_fd=folder)
    try:
        facts = os.fstat(opened)
        _check_device(folder, facts)
        if stat.S_IFMT(facts.st_mode) != kind:
            raise PermissionError(errno.EACCES, "another kind of file")
    except BaseException:
        os.close(opened)
        raise
    return opened


def _check_device(folder: int, facts: os.stat_result) -> None:
    if facts.st_dev != os.fstat(folder).st_dev:
        raise OSError(errno.EXDEV, "another file system")


def _facts(facts: os.stat_result, target: str = "") -> tuple[str, int, float, str]:
    kinds: dict[int, str] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    kind = kinds.get(stat.S_IFMT(facts.st_mode), "other")
    return kind, facts.st_size, facts.st_mtime_ns / 1e6, target


def _whole(given: object) -> int:
    if type(given) is not int or given < 0:
        raise ValueError(given)
    return given
