"""Waiting for descriptors on the event loop."""

from __future__ import annotations

import asyncio
import select


async def readable(descriptor: int) -> None:
    """Return when there is something to read, or an end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, on_readable)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)


def has_ended(pidfd: int) -> bool:
    """Whether a process is gone already."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


async def gone(pidfd: int, timeout: float) -> bool:
    """Whether a process ended within the time."""
    try:
        await asyncio.wait_for(readable(pidfd), timeout)
    except TimeoutError:
        return False
    return True
