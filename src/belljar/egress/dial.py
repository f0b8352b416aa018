"""Connecting to vetted addresses, in their order: the next starts when the last is slow, the first to answer wins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address

from belljar.egress.hosts import Address

_HEAD_START_S = 0.25
_MOST = 8


async def dial(addresses: Sequence[Address], port: int) -> tuple[socket.socket, Address]:
    """A socket connected to the first address that answers, and which one that was.

    Raises:
        OSError: what the last failure was, when none does.
    """
    waiting = list(addresses[:_MOST])
    running: dict[asyncio.Task[socket.socket], Address] = {}
    failure = OSError("there is no address to connect to")
    won: socket.socket | None = None
    try:
        while waiting or running:
            if waiting:
                address = waiting.pop(0)
                running[asyncio.create_task(_connected(address, port))] = address
            pause = _HEAD_START_S if waiting else None
            done, _ = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = running.pop(task)
                error = task.exception()
                if error is None and won is None:
                    won, answered = task.result(), address
                elif error is None:
                    task.result().close()
                elif isinstance(error, OSError):
                    failure = error
                else:
                    raise error
            if won is not None:
                return won, answered
        raise failure
    finally:
        await _leave(list(running))


async def _connected(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (str(address), port))
    except BaseException:
        made.close()
        raise
    return made


async def _leave(losers: list[asyncio.Task[socket.socket]]) -> None:
    for task in losers:
        task.cancel()
    for result in await asyncio.gather(*losers, return_exceptions=True):
        if isinstance(result, socket.socket):
            result.close()
