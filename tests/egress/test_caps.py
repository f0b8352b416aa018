"""Caps: connections, bytes, times and sizes, each with a denial; memory stays flat, and others are not disturbed."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from tests import probe
from tests.egress.world import Proxy, allowed, eventually, origin, read_all, wait

from belljar import InvalidRequest
from belljar.egress.caps import Caps, Pace

pytestmark = pytest.mark.anyio
MEGABYTE = 1 << 20


def get(port: int) -> bytes:
    return f"GET http://example.test:{port}/ HTTP/1.0\r\n\r\n".encode()


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer without end."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer that comes a byte at a time, for ever."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def rule_of_the_only_denial(proxied: Proxy) -> str:
    await eventually(lambda: len(proxied.denials) == 1)
    return proxied.denials[0].rule


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Caps)])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_cap_must_be_more_than_nothing(name: str, value: float) -> None:
    with pytest.raises(InvalidRequest, match=name):
        Caps(**{name: value})


async def test_e11_an_endless_response_ends_at_the_byte_cap() -> None:
    async with origin(pour) as server, allowed(server, Caps(received_bytes=4 * MEGABYTE)) as proxied:
        answer = await proxied.ask(get(server.port))
        assert 0 < len(answer) <= 4 * MEGABYTE + 1000
        assert await rule_of_the_only_denial(proxied) == f"a sandbox may receive {4 * MEGABYTE} bytes"
        assert (await proxied.ask(get(server.port))).startswith(b"HTTP/1.1 403 ")


async def test_e11_a_response_that_announces_too_much_is_refused_before_it_comes() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n"
    async with origin(answer) as server, allowed(server) as proxied:
        got = await proxied.ask(get(server.port))
        assert got.startswith(b"HTTP/1.1 403 ")
        assert b"a sandbox may receive 1073741824 bytes" in got


async def test_the_byte_cap_counts_all_connections_of_a_sandbox() -> None:
    async with origin(pour) as server, allowed(server, Caps(received_bytes=4 * MEGABYTE)) as proxied:
        answers = await asyncio.gather(*(proxied.ask(get(server.port)) for _ in range(8)))
        assert sum(len(answer) for answer in answers) <= 4 * MEGABYTE + 8 * 1000
        assert sum(seen.received for seen in proxied.connections) <= 4 * MEGABYTE


async def test_uploads_end_at_their_own_cap() -> None:
    async with origin(silence) as server, allowed(server, Caps(sent_bytes=MEGABYTE)) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)

        async def upload() -> None:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()

        with pytest.raises(ConnectionError):
            await wait(upload())
        assert await rule_of_the_only_denial(proxied) == f"a sandbox may send {MEGABYTE} bytes"
        await eventually(lambda: len(proxied.connections) == 1)
        assert proxied.connections[0].sent <= MEGABYTE
        await read_all(reader)


async def test_e11_a_drip_ends_with_the_connections_time() -> None:
    async with origin(drip) as server, allowed(server, Caps(total_s=1, idle_s=30)) as proxied:
        answer = await proxied.ask(get(server.port))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert await rule_of_the_only_denial(proxied) == "a connection may last 1 s"


async def test_an_idle_tunnel_is_ended() -> None:
    async with origin(silence) as server, allowed(server, Caps(idle_s=0.5)) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        assert await read_all(reader) == b""
        assert await rule_of_the_only_denial(proxied) == "a connection may be idle for 0.5 s"
        assert proxied.gate.open == 0
        writer.close()


async def test_a_tunnel_with_traffic_is_not_idle() -> None:
    async with origin(drip) as server, allowed(server, Caps(idle_s=0.6)) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        writer.write(b"x")
        await wait(reader.readexactly(len(b"HTTP/1.1 200 OK\r\n\r\n") + 30))
        assert proxied.denials == []
        writer.close()


async def test_a_server_that_never_answers_a_request_is_refused_by_the_idle_cap() -> None:
    async with origin(silence) as server, allowed(server, Caps(idle_s=0.5)) as proxied:
        answer = await proxied.ask(get(server.port))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"a connection may be idle for 0.5 s" in answer


@pytest.mark.parametrize(
    "start", [b"", b"G", b"GET http://example.test/ HTTP/1.1\r\nX: ", b"\x05", b"\x05\x01\x00\x05\x01"]
)
async def test_a_head_that_comes_too_slowly_is_refused(start: bytes) -> None:
    async with origin() as canary, allowed(canary, Caps(head_s=0.5)) as proxied:
        reader, writer = await proxied.open()
        writer.write(start)
        await read_all(reader)
        assert await rule_of_the_only_denial(proxied) == "its head must be there within 0.5 s"
        writer.close()
        await eventually(lambda: proxied.gate.open == 0)
        assert canary.visits == 0


async def test_a_head_that_is_too_long_is_refused() -> None:
    async with origin() as canary, allowed(canary, Caps(head_bytes=2000)) as proxied:
        for request in (b"GET http://example.test/" + b"a" * 9000, get(canary.port)[:-2] + b"A: b\r\n" * 400 + b"\r\n"):
            assert (await proxied.ask(request)).startswith(b"HTTP/1.1 431 ")
        assert canary.visits == 0
        fits = get(canary.port)[:-2] + b"A: " + b"b" * 1500 + b"\r\n\r\n"
        assert (await proxied.ask(fits)).endswith(b"hello")


async def test_a_name_that_takes_too_long_to_look_up_is_unreachable() -> None:
    async def forever(host: str, port: int) -> list[str]:
        await asyncio.sleep(1000)
        return []

    async with origin() as canary, allowed(canary, Caps(connect_s=0.5)) as proxied:
        probe.use_resolver(proxied.egress, forever)
        answer = await proxied.ask(get(canary.port))
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert proxied.denials == []


async def test_one_connection_too_many_is_turned_away_with_the_reason() -> None:
    async with origin(silence) as server, allowed(server, Caps(connections=3)) as proxied:
        held = [await proxied.tunnel("example.test", server.port) for _ in range(3)]
        answer = await proxied.ask(get(server.port))
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert await rule_of_the_only_denial(proxied) == "a sandbox may have 3 connections at once"
        held[0][1].close()
        await eventually(lambda: proxied.gate.open == 2)
        held.append(await proxied.tunnel("example.test", server.port))
        for _, writer in held:
            writer.close()


def test_a_flood_of_new_connections_is_taken_at_a_pace():
    pace = Pace(Caps(connections=10, new_per_s=5))
    assert [pace.delay(100.0) for _ in range(10)] == [0.0] * 10
    assert [round(pace.delay(100.0), 3) for _ in range(3)] == [0.2, 0.4, 0.6]
    assert pace.delay(102.0) == 0.0
    assert [pace.delay(1000.0) for _ in range(10)] == [0.0] * 10
    assert pace.delay(1000.0) > 0


async def test_those_who_wait_are_served_in_the_end():
    async with origin() as server, allowed(server, Caps(connections=4, new_per_s=50)) as proxied:
        answers = [await proxied.ask(get(server.port)) for _ in range(20)]
    assert all(answer.endswith(b"hello") for answer in answers)
