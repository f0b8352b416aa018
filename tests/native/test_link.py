"""The link to a kernel that does not read: it holds up nobody, also when it has ended."""

from __future__ import annotations

import asyncio
import socket
import threading

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


def _read_all(channel: socket.socket, size: int, read: list[int]) -> None:
    while read[0] <= size:
        read[0] += len(channel.recv(1 << 16))
