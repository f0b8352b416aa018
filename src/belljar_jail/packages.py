"""Packages that one sandbox has beyond its environment: a folder of the host's, shown by the keeper and only read."""

from __future__ import annotations

import os

from belljar_jail import linux, overlay
from belljar_kernel.protocol import PACKAGES

# Beneath /packages and not on it: Landlock's rule for that folder holds for what is mounted in it later, too.
AT = PACKAGES


def show(trees: list[int], roots: list[str]) -> str | None:
    """Show a tree that the host opened in place of the last one; none at all when there is none. What went wrong."""
    try:
        for root in roots:
            if os.path.ismount(root + AT):
                linux.umount(root + AT)
        for tree in trees:
            overlay.show(tree, [root + AT for root in roots])
    except OSError as failure:
        return str(failure)
    finally:
        for tree in trees:
            os.close(tree)
    return None
