"""How many sandboxes a host has at once, and who waits for a place. A full host says so; it never falls over."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from belljar.errors import HostBusy

WAIT_S = 30.0


class Admission:
    """Places, and a queue with a bound, first come first served. No places at all means no bound."""

    def __init__(self, places: int, queue: int, make_room: Callable[[], None]) -> None:
        self._places = places
        self._queue = queue
        self._make_room = make_room
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    async def enter(self) -> None:
        """Take a place; leave() gives it back.

        Raises:
            HostBusy: when too many wait already, or none became free in time.
        """
        if not self._places or (self._taken < self._places and not self._waiting):
            self._taken += 1
            return
        if len(self._waiting) >= self._queue:
            raise HostBusy(f"this host has its {self._places} sandboxes and {self._queue} waiting; try again later")
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._make_room()
        try:
            async with asyncio.timeout(WAIT_S):
                await mine
        except BaseException as failure:
            if mine.done() and not mine.cancelled():  # it was given a place in this very moment
                self.leave()
            with contextlib.suppress(ValueError):
                self._waiting.remove(mine)
            if isinstance(failure, TimeoutError):
                raise HostBusy(
                    f"this host has its {self._places} sandboxes, and none was closed within {WAIT_S:g} s; "
                    "try again later, close some, or raise BELLJAR_MAX_SANDBOXES",
                    retry_after_s=WAIT_S,
                ) from None
            raise

    def leave(self) -> None:
        """Give a place back: to the one who waits longest."""
        while self._waiting:
            next_one = self._waiting.popleft()
            if not next_one.done():
                next_one.set_result(None)
                return
        self._taken -= 1
