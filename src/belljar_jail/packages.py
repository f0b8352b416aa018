"""Packages that one sandbox has beyond its environment: a folder of the host's, shown by the keeper and only read."""

from __future__ import annotations

import os

from belljar_jail import linux, overlay

# Beneath /packages and not on it: Landlock's rule for that folder holds for what is mounted in it later, too.
AT = "/packages/site"


def show(trees: list[int]) -> str | None:
    """Show a tree that the host opened in place of the last one; none at all when there is none. What went wrong."""
    try:
        if os.path.ismount(AT):
            linux.umount(AT)
        for tree in trees:
            overlay.show(tree, AT)
    except OSError as failure:
        return str(failure)
    finally:
        for tree in trees:
            os.close(tree)
    return None
