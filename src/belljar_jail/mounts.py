"""Folders of the host that a sandbox reads: shown by its keeper before a kernel lives, each through an overlay.

An overlay and no plain bind: through it no host folder name is in the mount table, the sockets and pipes of the folder
lead nowhere, and locks that the sandbox takes are not the host's.
"""

from __future__ import annotations

import os

from belljar_jail import linux, overlay
from belljar_jail.root import READ_ONLY

ROOT = overlay.SPARE  # of the sandbox, while it is made
LOWER = f"{ROOT}/.lower"


def show(places: list[str], trees: list[int]) -> str | None:
    """Make a root with these places, show a tree at each, and make it the sandbox's. What went wrong, or nothing."""
    try:
        _furnish(places)
        for place, tree in zip(places, trees, strict=True):
            _show(tree, f"{ROOT}{place}", place)
        os.rmdir(LOWER)
        linux.mount(None, ROOT, None, linux.MS_BIND | linux.MS_REMOUNT | READ_ONLY)
        linux.pivot_into(ROOT)
    except OSError as failure:
        return str(failure)
    finally:
        for tree in trees:
            os.close(tree)
    return None


def refresh(places: list[str]) -> str | None:
    """Forget what names meant: an overlay remembers those that were looked up, whatever became of them."""
    try:
        for place in places:
            linux.mount(None, place, None, linux.MS_REMOUNT | READ_ONLY)
    except OSError as failure:
        return str(failure)
    return None


def _furnish(places: list[str]) -> None:
    """A root with all that the present one has, which is read-only, and the places as folders."""
    names = os.listdir("/")
    linux.mount("root", ROOT, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=0755")
    for name in names:
        path, copy = f"/{name}", f"{ROOT}/{name}"
        if os.path.islink(path):
            os.symlink(os.readlink(path), copy)
        else:
            os.mkdir(copy)
            if path not in (ROOT, overlay.EMPTY):
                linux.mount(path, copy, None, linux.MS_BIND | linux.MS_REC)
    for path in (LOWER, *(f"{ROOT}{place}" for place in places)):
        os.makedirs(path, exist_ok=True)


def _show(tree: int, at: str, place: str) -> None:
    try:
        overlay.show(tree, [at], LOWER)
    except OSError as failure:
        why = f"the file system of the folder for {place} cannot be shown through an overlay: {failure.strerror}"
        raise OSError(failure.errno, why) from None
    if not os.access(at, os.R_OK | os.X_OK):
        raise PermissionError(f"the folder for {place} cannot be read by the sandbox's user; allow it with chmod o+rx")
