"""Where the root of a live fork is mounted: in a folder that the rules of its parent allow, and where it has nothing.

Landlock's rules are about folders, and a fork keeps those of its parent, which know none of its files. But they allow
what is mounted in a folder that they name. Each generation has one, within that of the generation before; on top, a
fork gets rules about its own files, which name the next.
"""

from __future__ import annotations

GENERATIONS = 12  # Landlock takes 16 sets of rules on top of each other
_FOLDER, _ROOT = "/.beneath", "/root"


def folder_for_forks(generation: int) -> str:
    """The folder that the rules of a generation allow for its forks."""
    return _FOLDER * (generation + 1)


def root_of(generation: int) -> str:
    """Where a fork's root is mounted; forks are the first generation."""
    return _FOLDER * generation + _ROOT


def folders() -> list[str]:
    """All of them, to be made ahead, as the root is read-only later."""
    return [root_of(generation) for generation in range(1, GENERATIONS + 1)] + [folder_for_forks(GENERATIONS)]
