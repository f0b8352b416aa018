"""Stops a run before its time: an interrupt first, which keeps the state, then a kill."""

from __future__ import annotations

import asyncio
from typing import Literal

from belljar.engines.base import KernelProcess

StoppedBy = Literal["deadline", "caller"]

GRACE_S = 1.0


class Stop:
    """Stops one run, at most once."""

    def __init__(self, process: KernelProcess) -> None:
        self.by: StoppedBy | None = None
        self._process = process
        self._ladder: asyncio.Task[None] | None = None

    def begin(self, by: StoppedBy) -> asyncio.Task[None]:
        """Stop the run, unless that has begun."""
        if self._ladder is None:
            self.by = by
            self._ladder = asyncio.get_running_loop().create_task(climb(self._process))
        return self._ladder

    async def settled(self) -> None:
        """What is being killed must be gone before the next run begins."""
        if self._ladder is not None:
            await asyncio.shield(self._ladder)


async def climb(process: KernelProcess) -> None:
    """The ladder: interrupt, which keeps the state, then kill, which does not."""
    for _ in range(2):  # the first may come before the kernel has even read the request, and count for nothing
        await process.interrupt()
        try:
            await asyncio.wait_for(process.idle(), GRACE_S / 2)
        except TimeoutError:
            continue
        return
    await process.kill()
