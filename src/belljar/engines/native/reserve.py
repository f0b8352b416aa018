"""Keepers made ahead: a control group, namespaces and mounts in which no kernel has lived yet. Each is used once."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque

from belljar.engines.native import cgroups
from belljar.engines.native.jail import Jail
from belljar.engines.native.keeper import Keeper, disk_order
from belljar.errors import StartFailed
from belljar.limits import Limits

REFILL_AFTER_S = 0.05  # the sandbox that was made has something to run now: let it


class Reserve:
    """A few keepers of one jail, with the default limits."""

    def __init__(self, jail: Jail, hierarchy: cgroups.Hierarchy | None, size: int) -> None:
        self.jail = jail
        self.size = size
        self.hierarchy = hierarchy
        self._limits = Limits()
        self._keepers: deque[Keeper] = deque()
        self._refill: asyncio.Task[None] | None = None
        self._is_due = False
        self._closed = False

    async def take(self, limits: Limits) -> Keeper | None:
        """A keeper whose group now has these limits; None when there is none, or its disk would be another."""
        if disk_order(limits) != disk_order(self._limits):
            return None
        while self._keepers:
            keeper = self._keepers.pop()
            try:
                if keeper.alive:
                    if keeper.group is not None and limits != self._limits:
                        keeper.group.set(limits)
                    return keeper
            except OSError:  # its group was taken away
                pass
            await _discard(keeper)
        return None

    @property
    def ready(self) -> int:
        """How many could be taken now."""
        return sum(keeper.alive for keeper in self._keepers)

    async def fill(self) -> None:
        """Make what is missing now: nobody waits for anything else."""
        self._begin_refill()
        if self._refill is not None:
            await asyncio.wait((self._refill,))

    def refill_soon(self) -> None:
        """Make what is missing, one at a time, in the background."""
        if not self._is_due and self.ready < self.size:
            self._is_due = True
            asyncio.get_running_loop().call_later(REFILL_AFTER_S, self._refill_due)

    async def close(self) -> None:
        """End what nobody took."""
        self._closed = True
        if self._refill is not None:
            self._refill.cancel()
            await asyncio.gather(self._refill, return_exceptions=True)
        while self._keepers:
            await _discard(self._keepers.popleft())

    def _refill_due(self) -> None:
        self._is_due = False
        self._begin_refill()

    def _begin_refill(self) -> None:
        if not self._closed and (self._refill is None or self._refill.done()):
            self._refill = asyncio.get_running_loop().create_task(self._make_missing())

    async def _make_missing(self) -> None:
        for keeper in [keeper for keeper in self._keepers if not keeper.alive]:
            self._keepers.remove(keeper)
            await _discard(keeper)
        with contextlib.suppress(StartFailed, OSError):  # a sandbox that somebody waits for will say why
            while len(self._keepers) < self.size:
                group = self.hierarchy.make(str(uuid.uuid4()), self._limits) if self.hierarchy else None
                try:
                    self._keepers.append(await Keeper.start(self.jail, group, self._limits))
                except BaseException:
                    if group is not None:
                        await asyncio.shield(asyncio.ensure_future(group.vanish()))
                    raise


async def _discard(keeper: Keeper) -> None:
    await keeper.end()
    if keeper.group is not None:
        await keeper.group.vanish()
