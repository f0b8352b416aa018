"""Makes every object of a zygote immortal, so that counting references to it writes to no page that forks share.

Python 3.12 and 3.13 leave the count of an immortal object alone (PEP 683). What a zygote has imported is never freed
anyway, and a page that nobody writes to is copied by no fork: a sandbox needs a third less memory of its own.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types

COUNTS = {(3, 12): 0xFFFFFFFF, (3, 13): 0xFFFFFFFF}  # the lower half of the count; others have not been tried
RUNNING = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def immortalise() -> int:
    """Do it for all objects that can be reached; how many there were, 0 where Python has no such thing."""
    count = COUNTS.get(sys.version_info[:2])
    if count is None or sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    gc.collect()
    found = gc.get_objects()  # before there is anything here that should go away again
    known: dict[int, object] = {}
    while found:
        fresh = {id(it): it for it in found if id(it) not in known and not isinstance(it, RUNNING)}
        known.update(fresh)
        found = gc.get_referents(*fresh.values())
    addresses = list(known)
    del known, found, fresh
    for address in addresses:
        ctypes.c_uint32.from_address(address).value = count
    return len(addresses)
