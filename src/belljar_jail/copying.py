"""Copies the files of a sandbox into the disk of its fork, as a keeper does it: by descriptor, following no link."""

from __future__ import annotations

import errno
import os
import stat

DEEPEST = 200
PIECE = 1 << 24
# Whoever still works in the parent took it away meanwhile, or put something of another kind in its place.
REPLACED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def copy(source: int, target: int, depth: int = 0) -> None:
    """Copy what one folder has into another: files with their holes, folders, links and pipes; sockets are left out.

    Raises:
        OSError: when it does not fit, or goes too deep.
    """
    if depth > DEEPEST:
        raise OSError(f"its folders are nested deeper than {DEEPEST}")
    with os.scandir(source) as found:
        entries = [entry.name for entry in found]
    for name in entries:
        try:
            facts = os.stat(name, dir_fd=source, follow_symlinks=False)
            _copy_one(source, target, name, facts, depth)
        except OSError as failure:
            if failure.errno not in REPLACED:
                raise


def _copy_one(source: int, target: int, name: str, facts: os.stat_result, depth: int) -> None:
    kind, times = stat.S_IFMT(facts.st_mode), (facts.st_atime_ns, facts.st_mtime_ns)
    if kind == stat.S_IFLNK:
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)
    elif kind == stat.S_IFIFO:
        os.mkfifo(name, stat.S_IMODE(facts.st_mode), dir_fd=target)
    elif kind == stat.S_IFDIR:
        os.mkdir(name, 0o700, dir_fd=target)
        ends = [os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at) for at in (source, target)]
        try:
            copy(ends[0], ends[1], depth + 1)
            _finish(ends[1], facts, times)
        finally:
            for end in ends:
                os.close(end)
    elif kind == stat.S_IFREG:
        reader = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
        try:
            if not stat.S_ISREG(os.fstat(reader).st_mode):
                return
            writer = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
            try:
                _copy_content(reader, writer, facts.st_size)
                _finish(writer, facts, times)
            finally:
                os.close(writer)
        finally:
            os.close(reader)


def _copy_content(reader: int, writer: int, size: int) -> None:
    """What was written; holes stay holes, since only what is written counts towards the disk."""
    os.ftruncate(writer, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(reader, at, os.SEEK_DATA)
        except OSError:  # a hole to the end
            return
        end = os.lseek(reader, at, os.SEEK_HOLE)
        os.lseek(writer, at, os.SEEK_SET)
        while at < end:
            sent = os.sendfile(writer, reader, at, min(end - at, PIECE))
            if not sent:
                return
            at += sent


def _finish(descriptor: int, facts: os.stat_result, times: tuple[int, int]) -> None:
    os.fchmod(descriptor, stat.S_IMODE(facts.st_mode))
    os.utime(descriptor, ns=times)
