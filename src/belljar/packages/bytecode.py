"""Compiles the modules of a folder ahead of their import: `bytecode.py FOLDER PLACE`. Sandboxes have it at PLACE.

Run as a program by the CPython that will import them, within bounds; it runs none of them, and imports nothing of ours.
"""

from __future__ import annotations

import compileall
import os
import sys

LARGEST = 1 << 20  # compiling takes some hundred times a module's size; such a one is compiled inside, if at all
WORTH_MORE_PROCESSES = 100


class TooLarge:
    """What compileall takes for a pattern of paths to pass over."""

    def search(self, path: str) -> bool:
        """Whether to pass over it."""
        return os.path.islink(path) or os.path.getsize(path) > LARGEST


def main(folder: str, place: str) -> None:
    """Compile all; one that cannot be is its importer's affair."""
    count = sum(name.endswith(".py") for _, _, names in os.walk(folder) for name in names)
    workers = 0 if count > WORTH_MORE_PROCESSES else 1
    compileall.compile_dir(folder, ddir=place, rx=TooLarge(), quiet=2, workers=workers)


if __name__ == "__main__":
    main(*sys.argv[1:])
