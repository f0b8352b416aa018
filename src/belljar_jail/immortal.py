"""Makes every object of a zygote immortal, so that counting references to it writes to no page that forks share.

Python 3.12 and 3.13 leave the count of an immortal object alone (PEP 683). What a zygote has imported is never freed
anyway, and a page that nobody writes to is copied by no fork: a sandbox needs a third less memory of its own.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

COUNTS = {(3, 12): 0xFFFFFFFF, (3, 13): 0xFFFFFFFF}  # the lower half of the count; others have not been tried
HEAP_TYPE = 1 << 9
_SLOTS: list[Any] = [type.__dict__[name] for name in ("__flags__", "__mro__", "__bases__", "__dict__")]
RUNNING = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def immortalise() -> int:
    """Do it for all objects that can be reached; how many there were, 0 where it cannot be done."""
    count = COUNTS.get(sys.version_info[:2])
    if count is None or not _is_as_expected():
        return 0
    gc.collect()
    found = gc.get_objects()  # before there is anything here that should go away again
    known: dict[int, object] = {}
    while found:
        fresh = {id(it): it for it in found if id(it) not in known and type(it) not in RUNNING}
        known.update(fresh)
        found = [*gc.get_referents(*fresh.values()), *_hidden(fresh.values())]
    for address in known:  # all of them are held meanwhile
        ctypes.c_uint32.from_address(address).value = count
    return len(known)


def _hidden(objects: Iterable[object]) -> Iterator[object]:
    """What the collector does not see: constants and names of code, and what is in a class that was made in C."""
    for it in objects:
        if type(it) is types.CodeType:
            yield from (it.co_consts, it.co_names, it.co_filename, it.co_name, it.co_qualname)
        elif issubclass(type(it), type):  # a proxy would answer isinstance() for another
            flags, order, bases, names = (slot.__get__(it) for slot in _SLOTS)  # a metaclass has no say
            if not flags & HEAP_TYPE:
                yield from (order, bases, *gc.get_referents(names))


def _is_as_expected() -> bool:
    """A CPython that counts in the usual place."""
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and has_lock and sys.byteorder == "little" and sys.maxsize > 1 << 32
