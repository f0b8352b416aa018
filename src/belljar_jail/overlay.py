"""Shows a folder of the host's through an overlay, so that no host folder name is in the mount table."""

from __future__ import annotations

from belljar_jail import linux
from belljar_jail.root import READ_ONLY

SPARE = "/.disk"  # a folder of every root, to mount on in passing
EMPTY = "/.empty"  # an overlay wants two folders at least


def show(tree: int, places: list[str], by_way_of: str = SPARE) -> None:
    """Mount a tree that the host opened, read-only."""
    linux.move_mount(tree, by_way_of)
    try:
        for at in places:
            linux.mount("belljar", at, "overlay", READ_ONLY, f"lowerdir={by_way_of}:{EMPTY}")
    finally:
        linux.umount(by_way_of)
