"""Output over the cap, held outside while a run is on: within bounds, however the code sends it."""

from __future__ import annotations

import tracemalloc

from belljar.host.budget import Budget
from belljar.host.overflow import Overflow


def test_output_in_single_bytes_takes_no_more_room_than_in_one_piece():
    held, size = Overflow(256, Budget(256 << 20)), 1 << 20
    tracemalloc.start()
    try:
        for _ in range(size):
            held.add("stdout", "x")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        held.forget()
    assert most < 4 * size
