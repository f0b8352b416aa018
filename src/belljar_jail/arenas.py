"""Keeps apart what a zygote has imported and what it, or a fork of it, makes later.

Huge pages make a fork cheap as long as nobody writes to them. CPython puts small objects into pools of 16 KB, cut from
arenas of 1 MB that lie wherever there is room, and new ones into whatever hole is next: everywhere. Here the arenas
are asked for in a row, before anything is imported, and at the end the holes are filled. What comes then lies together.
Where Python has another allocator, a few MB are lost.
"""

from __future__ import annotations

ARENA, POOL, HEADER = 1 << 20, 1 << 14, 48
LARGEST, STEP = 512, 16  # of the objects in pools, and of their sizes
RESERVED_BYTES = 40 << 20
MOST_BYTES = 8 << 20  # to fill the holes of one size with
_EMPTY = b"".__sizeof__()

_kept: list[object] = []  # one object in each arena, so that Python does not give it back; and what fills the holes


def reserve() -> None:
    """Have arenas in one piece for what will be imported."""
    size = LARGEST - 2 * STEP
    blocks: list[object] = [None] * (RESERVED_BYTES // size)
    for at in range(len(blocks)):  # and no other memory is asked for meanwhile
        blocks[at] = _block(size)
    _kept.extend({id(block) // ARENA: block for block in blocks}.values())


def fill_holes() -> None:
    """Have the next objects of every size lie in a pool that was empty."""
    for size in range(STEP, LARGEST + 1, STEP):
        before = 0
        for _ in range(MOST_BYTES // size):
            block = _block(size)
            _kept.append(block)
            if before % POOL == HEADER and id(block) == before + size:  # its first two: a hole would be one
                break
            before = id(block)
        else:
            return  # no such pools here


def _block(size: int) -> object:
    """A new object of so many bytes."""
    if size == STEP:
        return object()
    return float(len(_kept)) if size < _EMPTY else bytes(size - _EMPTY)
