"""Folders of a sandbox deleted: by descriptor, through no link, and however deep the code made them."""

from __future__ import annotations

import contextlib
import os
import stat

MOST_LEVELS = 32  # that are held at once, with a descriptor each
MOST_ROUNDS = 5000  # the code may be adding more all the time

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: int, name: str) -> None:
    """Remove a file, a link or a folder with all it has. What lies too deep in it is moved up, then removed."""
    if not _is_folder(folder, name):
        os.unlink(name, dir_fd=folder)
        return
    top = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for _ in range(MOST_ROUNDS):
            children = os.listdir(top)
            for child in children:
                with contextlib.suppress(FileNotFoundError):
                    _remove(top, top, child, MOST_LEVELS)
            if not children:
                break
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=folder)


def _remove(top: int, folder: int, name: str, levels: int) -> None:
    if not _is_folder(folder, name):
        os.unlink(name, dir_fd=folder)
        return
    if not levels:
        os.rename(name, f".belljar-{os.urandom(6).hex()}", src_dir_fd=folder, dst_dir_fd=top)
        return
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for child in os.listdir(inner):
            with contextlib.suppress(FileNotFoundError):
                _remove(top, inner, child, levels - 1)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
