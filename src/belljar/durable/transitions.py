"""Locks that are held while a sandbox starts, wakes or falls asleep."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Transitions:
    """One lock for each sandbox in transition. An act that needs the sandbox waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, owner: str, id: str) -> asyncio.Lock:
        """The lock of this sandbox."""
        return self._locks.setdefault((owner, id), asyncio.Lock())

    def is_on(self, owner: str, id: str) -> bool:
        """Whether this sandbox is in transition now."""
        lock = self._locks.get((owner, id))
        return lock is not None and lock.locked()
