"""The end of a run before its time: who wanted it, the ladder climbed for it, and how the Execution tells it."""

from __future__ import annotations

import asyncio
from typing import Literal

from belljar.engines import exits
from belljar.engines.base import KernelProcess
from belljar.execution import Execution

StoppedBy = Literal["deadline", "caller", "listener"]

GRACE_S = 1.0


class Stop:
    """Of one run."""

    def __init__(self, process: KernelProcess, timeout_s: float) -> None:
        self.by: StoppedBy | None = None
        self._process = process
        self._timeout_s = timeout_s
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

    def tell(self, execution: Execution, killed: bool) -> None:
        """Say in an Execution that it was stopped; the traceback of one whose Python lives says where it was."""
        where = execution.error
        traceback, line = (where.traceback, where.line) if where and not killed else ("", None)
        if self.by == "deadline":
            execution.status, execution.exit_code = "timeout", exits.TIMEOUT_EXIT
            execution.error = exits.timed_out(self._timeout_s, killed=killed, traceback=traceback, line=line)
        else:
            execution.status, execution.exit_code = "cancelled", exits.CANCELLED_EXIT
            execution.error = exits.cancelled(killed=killed, traceback=traceback, line=line)


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
