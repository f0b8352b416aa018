"""The `file_*` Requests: files of the workspace for the host. None is reached through a link that leads out of it."""

from __future__ import annotations

import binascii
import errno
import os
import stat

from belljar_kernel.protocol import FILE_PIECE_BYTES, LIST_LEVELS
from belljar_kernel.removal import remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MOST_LINKS = 40
_WORDS = {
    errno.ENOENT: "missing", errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EFBIG: "full", errno.ELOOP: "through",
    errno.ENOTDIR: "through", errno.EISDIR: "folder", errno.ENAMETOOLONG: "deep",
}  # fmt: skip
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_open, _close, _read, _write, _lseek = os.open, os.close, os.read, os.write, os.lseek
_stat, _fstat, _mkdir, _rename, _unlink = os.stat, os.fstat, os.mkdir, os.rename, os.unlink
_readlink, _listdir, _dup = os.readlink, os.listdir, os.dup


class _Refused(Exception):
    """Carries the word for why."""


def answer(workspace: str, request: dict[str, Any]) -> dict[str, Any]:
    """What `done` carries; `failure` is a word, for which the host has the sentence."""
    act = _ACTS.get(request["type"])
    if act is None:
        raise ValueError(f"unknown request {request['type']!r:.100}")
    try:
        _check_names(request)
        root = _open(workspace, _FOLDER)
        try:
            return act(root, request)
        finally:
            _close(root)
    except _Refused as refused:
        return {"failure": str(refused)}
    except OSError as error:
        return {"failure": _WORDS.get(error.errno or 0, "unknown"), "detail": error.strerror or type(error).__name__}
    except Exception as error:  # the code may have taken away what this needs; then no act may seem done
        return {"failure": "unknown", "detail": type(error).__name__}


def _check_names(request: dict[str, Any]) -> None:
    """Refuse a path that is not made of names alone. The root of the workspace has none, and can only be listed."""
    if request["type"] == "file_list" and not request["path"]:
        return
    if any(part in ("", ".", "..") for part in request["path"].split("/")):
        raise _Refused("through")


def _write_file(root: int, request: dict[str, Any]) -> dict[str, Any]:
    """Write a piece beside the old file; the last one puts it in its place."""
    *parents, name = request["path"].split("/")
    fresh, how = request["fresh"], os.O_APPEND if request["append"] else os.O_CREAT | os.O_EXCL
    folder = _make_folders(root, parents)
    try:
        try:
            file = _open(fresh, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o644, dir_fd=folder)
            try:
                rest = memoryview(binascii.a2b_base64(request["data"]))
                while rest:
                    rest = rest[_write(file, rest) :]
            finally:
                _close(file)
            if request["last"]:
                _rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            try:
                _unlink(fresh, dir_fd=folder)
            except OSError:
                pass
            raise
    finally:
        _close(folder)
    return {}


def _make_folders(root: int, names: Sequence[str]) -> int:
    folder = _dup(root)
    for name in names:
        above = folder
        try:
            try:
                _mkdir(name, 0o755, dir_fd=above)
            except FileExistsError:
                pass
            folder = _open(name, _FOLDER, dir_fd=above)
        finally:
            _close(above)
    return folder


def _read_file(root: int, request: dict[str, Any]) -> dict[str, Any]:
    offset, most = request["offset"], request["max"]
    folder, name = _found(root, request["path"])
    try:
        _check_regular(_stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        file = _open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        _close(folder)
    try:
        facts = _fstat(file)
        _check_regular(facts.st_mode)
        if facts.st_size > most:
            raise _Refused("large")
        _lseek(file, offset, os.SEEK_SET)
        data = b""
        while len(data) < FILE_PIECE_BYTES and (piece := _read(file, FILE_PIECE_BYTES - len(data))):
            data += piece
        end = len(data) < FILE_PIECE_BYTES or offset + len(data) >= facts.st_size
        return {"data": binascii.b2a_base64(data, newline=False).decode("ascii"), "end": end}
    finally:
        _close(file)


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise _Refused("folder")
    if not stat.S_ISREG(mode):
        raise _Refused("special")


def _list_folder(root: int, request: dict[str, Any]) -> dict[str, Any]:
    path: str = request["path"]
    entries: list[Any] = []
    folder, name = _found(root, path)
    try:
        top = _open(name, _FOLDER, dir_fd=folder)
    finally:
        _close(folder)
    _walk(top, f"{path}/" if path else "", entries, request["max"], LIST_LEVELS)
    return {"entries": entries}


def _walk(folder: int, prefix: str, entries: list[Any], most: int, levels: int) -> None:
    """List a folder, then close it. The code may have threads that take things away meanwhile."""
    try:
        for name in sorted(_listdir(folder)):
            if len(entries) >= most:
                raise _Refused("many")
            try:
                facts = _stat(name, dir_fd=folder, follow_symlinks=False)
                kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "other")
                entries.append([prefix + name, kind, facts.st_size, facts.st_mtime])
                if kind == "directory" and levels:
                    _walk(_open(name, _FOLDER, dir_fd=folder), f"{prefix}{name}/", entries, most, levels - 1)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # a folder that may not be read is listed without its content
    finally:
        _close(folder)


def _delete_file(root: int, request: dict[str, Any]) -> dict[str, Any]:
    parent, _, name = request["path"].rpartition("/")
    above, last = _found(root, parent)
    try:
        folder = _open(last, _FOLDER, dir_fd=above)
    finally:
        _close(above)
    try:
        remove(folder, name)
    finally:
        _close(folder)
    return {}


def _found(root: int, path: str) -> tuple[int, str]:
    """A descriptor of the folder that a path leads to, and the name in it, which is no link.

    A link may lead elsewhere in the workspace, but not out of it, and not by a full path.
    """
    folders, left, links = [_dup(root)], _parts(path), 0
    try:
        while left:
            name = left.pop()
            if name == "..":
                if len(folders) == 1:
                    raise _Refused("through")
                _close(folders.pop())
                continue
            if stat.S_ISLNK(_stat(name, dir_fd=folders[-1], follow_symlinks=False).st_mode):
                target = _readlink(name, dir_fd=folders[-1])
                links += 1
                if target.startswith("/") or links > MOST_LINKS:
                    raise _Refused("through")
                left += _parts(target)
                continue
            if not left:
                return _dup(folders[-1]), name
            folders.append(_open(name, _FOLDER, dir_fd=folders[-1]))
        return _dup(folders[-1]), "."
    finally:
        for folder in folders:
            _close(folder)


def _parts(path: str) -> list[str]:
    """The names of a path, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


_ACTS = {"file_write": _write_file, "file_read": _read_file, "file_list": _list_folder, "file_delete": _delete_file}
