"""Bytes both ways between a guest and a line, untouched. Read is only whom they are for: the server name in TLS, the
host in requests in the clear.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from belljar.egress.answers import answer
from belljar.egress.clear import pass_requests
from belljar.egress.hello import HANDSHAKE, Incomplete, server_name
from belljar.egress.hosts import Host, NotAHost, canonical
from belljar.egress.line import Line
from belljar.egress.refusals import Refused
from belljar.egress.streams import CHUNK, Stream

_LONGEST_HELLO = 16 << 10
_TURN = 8
_ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"  # a fatal alert, so that TLS in the guest fails at once and says why


class _Source(Protocol):
    async def recv(self, limit: int = CHUNK) -> bytes: ...


class _Sink(Protocol):
    async def send(self, data: bytes) -> None: ...

    async def send_eof(self) -> None: ...


async def tunnel(guest: Stream, line: Line, host: Host) -> None:
    """Relay until both sides have ended.

    Raises:
        Refused: when TLS or HTTP asks for another host than the tunnel is for, or a cap is reached.
        OSError: when one side breaks.
    """
    async with line.in_time():
        await both(_upward(guest, line, host), pump(line, guest))


async def pump(source: _Source, sink: _Sink) -> None:
    """Move bytes one way until they end; the next are read when the last are taken."""
    turn = 0
    while data := await source.recv(CHUNK):
        await sink.send(data)
        turn += 1
        if turn % _TURN == 0:
            await asyncio.sleep(0)  # sockets that are always ready would never let go of the loop
    await sink.send_eof()


async def both(one: Coroutine[Any, Any, None], other: Coroutine[Any, Any, None]) -> None:
    """Wait for both; when one fails, stop the other and raise. A refusal tells more than the break that it causes."""
    tasks = [asyncio.create_task(one), asyncio.create_task(other)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [end for end in ended if isinstance(end, Exception)]
    for failure in sorted(failures, key=lambda failure: not isinstance(failure, Refused)):
        raise failure


async def _upward(guest: Stream, line: Line, host: Host) -> None:
    first = await guest.recv(CHUNK)
    if first[:1] == bytes([HANDSHAKE]):
        try:
            first = await _checked_hello(first, guest, line, host)
        except Refused:
            await guest.send(_ACCESS_DENIED)
            raise
        guest.put_back(first)
    else:
        guest.put_back(first)
        try:
            await pass_requests(guest, line, host)
        except Refused as refused:
            if not line.connection.received:  # else it would stand in the middle of an answer
                await guest.send(answer(refused))
                await guest.linger()
            raise
    await pump(guest, line)


async def _checked_hello(first: bytes, guest: Stream, line: Line, host: Host) -> bytes:
    """The whole ClientHello and what came with it, once its server name is known to be the tunnel's own."""
    while True:
        try:
            name = server_name(first)
            asked = host if name is None else canonical(name)
        except Incomplete:
            more = await guest.recv(CHUNK) if len(first) < _LONGEST_HELLO else b""
            if not more:
                raise Refused(line.target, "TLS must begin with a whole ClientHello", "it ended early") from None
            first += more
        except (NotAHost, ValueError) as reason:
            raise Refused(line.target, "TLS must begin with a sound ClientHello", str(reason)) from None
        else:
            if asked != host:
                hint = f"TLS asks for {asked} inside a tunnel to {host}"
                raise Refused(line.target, "TLS must ask for the host of its tunnel", hint)
            return first
