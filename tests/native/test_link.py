"""The link to a kernel that does not read: it does not hold up the host, also when it has ended."""

from __future__ import annotations

import asyncio
import socket
import threading

from belljar.engines.transport.exchange import MOST_UNSENT
from belljar.engines.transport.link import Link

REQUEST = {"type": "run", "code": "x" * 5_000_000}


def test_a_request_that_does_not_fit_goes_out_when_it_is_read():
    async def sent() -> int:
        ours, theirs = socket.socketpair()
        link = Link(ours, {}, [])
        link.send(REQUEST)
        read = [0]
        reader = threading.Thread(target=_read_all, args=(theirs, len(REQUEST["code"]), read))
        reader.start()
        while reader.is_alive():
            await asyncio.sleep(0.01)
        link.send({"type": "run", "code": ""})
        assert theirs.recv(100)
        link.close()
        theirs.close()
        return read[0]

    assert asyncio.run(asyncio.wait_for(sent(), 30)) > len(REQUEST["code"])


def test_one_that_was_held_up_when_the_link_ended_is_let_go():
    async def sent() -> None:
        ours, theirs = socket.socketpair()
        link = Link(ours, {}, [])
        link.send(REQUEST)
        link.close()
        link.send(REQUEST)
        theirs.close()

    asyncio.run(asyncio.wait_for(sent(), 30))


def test_a_kernel_that_does_not_read_the_replies_it_asked_for_is_ended_and_nothing_is_kept_for_it():
    async def unread() -> tuple[int, str | None, int]:
        ours, theirs = socket.socketpair()
        link = Link(ours, {}, [])
        reply = {"type": "reply", "call_id": 1, "value": "x" * 1_000_000}
        sent = 0
        while not link.ended.done() and sent < 200:
            link.send(reply)
            sent += 1
        reason = link.broken
        for _ in range(20):
            link.send(reply)
        left = link.unsent()
        link.close()
        theirs.close()
        return sent, reason, left

    sent, reason, left = asyncio.run(asyncio.wait_for(unread(), 30))
    assert sent <= MOST_UNSENT // 1_000_000 + 3
    assert left == 0
    assert reason is not None
    assert "wait to be read" in reason


def _read_all(channel: socket.socket, size: int, read: list[int]) -> None:
    while read[0] <= size:
        read[0] += len(channel.recv(1 << 16))
