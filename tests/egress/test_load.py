"""Many connections, endless ones and slow readers: the proxy stays healthy and small."""

from __future__ import annotations

import asyncio
import resource
import socket
import time

import pytest
from tests import probe
from tests.egress.world import allowed, eventually, origin, read_request, wait

from belljar.egress.caps import Caps

pytestmark = pytest.mark.anyio
MEGABYTE = 1 << 20


def get(port: int) -> bytes:
    return f"GET http://example.test:{port}/ HTTP/1.0\r\n\r\n".encode()


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer without end."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_200_connections_at_once_are_served() -> None:
    async def exchange(number: int) -> None:
        reader, writer = await proxied.tunnel("example.test", server.port)
        for turn in range(3):
            word = f"{number}-{turn}\n".encode()
            writer.write(word)
            assert await wait(reader.readline()) == word
        together.add(number)
        await eventually(lambda: len(together) == 200)
        writer.close()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)

    together: set[int] = set()
    async with origin(echo) as server, allowed(server) as proxied:
        await asyncio.gather(*(exchange(number) for number in range(200)))
        await eventually(lambda: proxied.gate.open == 0)
        assert len(proxied.connections) == 200


async def test_e11_a_flood_of_connections_leaves_the_proxy_healthy() -> None:
    async with origin(silence) as server, allowed(server, Caps(connections=20, new_per_s=1e6)) as proxied:
        held = [await proxied.tunnel("example.test", server.port) for _ in range(19)]
        for _ in range(10):
            flood = [socket.create_connection(("127.0.0.1", proxied.port)) for _ in range(100)]
            await asyncio.sleep(0.02)
            for connection in flood:
                connection.close()
        await eventually(lambda: proxied.gate.open == 19)
        held.append(await proxied.tunnel("example.test", server.port))
        assert server.visits == 20
        for _, writer in held:
            writer.close()


async def test_memory_stays_flat_while_the_reader_is_slow() -> None:
    async with origin(pour) as server, allowed(server) as proxied:
        reader, writer = await proxied.open()
        writer.write(get(server.port))
        await wait(reader.readuntil(b"\r\n\r\n"))
        writer.transport.pause_reading()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await asyncio.sleep(1)
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 32 << 10
        (line,) = probe.lines(proxied.egress)
        assert line.connection.received < 32 * MEGABYTE
        writer.transport.abort()


async def test_a_busy_connection_does_not_hold_up_others() -> None:
    async with origin(pour) as busy, origin() as quiet, allowed(busy, Caps(received_bytes=256 * MEGABYTE)) as proxied:
        proxied.gate.rules = type(proxied.gate.rules).parse(
            [
                f"example.test:{busy.port}",
                f"127.0.0.1:{busy.port}",
                f"example.test:{quiet.port}",
                f"127.0.0.1:{quiet.port}",
            ]
        )
        pouring = asyncio.create_task(proxied.ask(get(busy.port)))
        await eventually(lambda: busy.visits == 1)
        begun = time.monotonic()
        assert (await proxied.ask(get(quiet.port))).endswith(b"hello")
        assert time.monotonic() - begun < 10
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)
