"""Packages that one sandbox has beyond its environment: a folder of the host's, shown by the keeper and only read."""

from __future__ import annotations

import os

from belljar_jail import linux
from belljar_jail.root import READ_ONLY

# Beneath /packages and not on it: Landlock's rule for that folder holds for what is mounted in it later, too.
AT = "/packages/site"
STAGE, EMPTY = "/.disk", "/.empty"


def show(trees: list[int], roots: list[str]) -> str | None:
    """Show a tree that the host opened in place of the last one; none at all when there is none. What went wrong."""
    try:
        _show(trees, roots)
    except OSError as failure:
        return str(failure)
    finally:
        for tree in trees:
            os.close(tree)
    return None


def _show(trees: list[int], roots: list[str]) -> None:
    """By way of an overlay, so that no folder name of the host is in the mount table."""
    for root in roots:
        if os.path.ismount(root + AT):
            linux.umount(root + AT)
    for tree in trees:
        linux.move_mount(tree, STAGE)
        try:
            for root in roots:
                linux.mount("packages", root + AT, "overlay", READ_ONLY, f"lowerdir={STAGE}:{EMPTY}")
        finally:
            linux.umount(STAGE)
