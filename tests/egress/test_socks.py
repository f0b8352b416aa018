"""SOCKS5 on the same port: the same rules for clients that know nothing else."""

from __future__ import annotations

import socket

import pytest
from tests.egress.world import Proxy, allowed, eventually, origin, proxy, read_all, wait

pytestmark = pytest.mark.anyio
GREETING = b"\x05\x01\x00"


def by_name(host: bytes, port: int, command: int = 1) -> bytes:
    return bytes([5, command, 0, 3, len(host)]) + host + port.to_bytes(2, "big")


def by_address(address: str, port: int) -> bytes:
    family, kind = (socket.AF_INET6, 4) if ":" in address else (socket.AF_INET, 1)
    return bytes([5, 1, 0, kind]) + socket.inet_pton(family, address) + port.to_bytes(2, "big")


async def reply(proxied: Proxy, request: bytes) -> int:
    """The code that a request is answered with."""
    answer = await proxied.ask(GREETING + request)
    assert answer[:3] == b"\x05\x00\x05"
    assert len(answer) == 12
    return answer[3]


async def test_a_name_that_is_allowed_is_connected_to() -> None:
    async with origin() as server, allowed(server) as proxied:
        reader, writer = await proxied.open()
        writer.write(GREETING)
        assert await wait(reader.readexactly(2)) == b"\x05\x00"
        writer.write(by_name(b"Example.test", server.port))
        assert await wait(reader.readexactly(10)) == b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
        writer.write(b"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n")
        assert (await read_all(reader)).endswith(b"hello")
        writer.close()
        await eventually(lambda: len(proxied.connections) == 1)
        assert [(seen.host, seen.way) for seen in proxied.connections] == [("example.test", "socks")]


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
async def test_an_address_that_is_listed_is_connected_to(address: str) -> None:
    async with origin() as server, proxy([f"127.0.0.1:{server.port}"]) as proxied:
        answer = await proxied.ask(GREETING + by_address(address, server.port) + b"GET / HTTP/1.1\r\n\r\n")
        assert answer.endswith(b"hello")


@pytest.mark.parametrize(
    "host",
    [
        b"evil.test",
        b"sub.example.test",
        b"2130706433",
        b"localhost",
        b"example.test\x00",
        b"\xff",
        b"",
        b"a@example.test",
    ],
)
async def test_other_names_are_not_allowed_and_not_looked_up(host: bytes) -> None:
    async with origin() as canary, proxy([f"example.test:{canary.port}"]) as proxied:
        assert await reply(proxied, by_name(host, canary.port)) == 2
        assert (canary.visits, proxied.lookups, len(proxied.denials)) == (0, [], 1)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "64:ff9b::7f00:1"])
async def test_addresses_that_are_not_listed_are_not_allowed(address: str) -> None:
    async with origin() as canary, proxy([f"example.test:{canary.port}"]) as proxied:
        assert await reply(proxied, by_address(address, canary.port)) == 2
        assert canary.visits == 0


async def test_a_name_that_leads_inside_is_not_allowed() -> None:
    async with origin() as canary, proxy([f"example.test:{canary.port}"], {"example.test": ["127.0.0.1"]}) as proxied:
        assert await reply(proxied, by_name(b"example.test", canary.port)) == 2
        assert canary.visits == 0


@pytest.mark.parametrize("command", [2, 3, 0, 255])
async def test_listening_and_udp_are_not_served(command: int) -> None:
    async with origin() as canary, allowed(canary) as proxied:
        assert await reply(proxied, by_name(b"example.test", canary.port, command)) == 7
        assert proxied.denials[0].rule == "only TCP connections are allowed"


async def test_a_server_that_cannot_be_reached_is_told_apart() -> None:
    async with proxy(["gone.test"]) as proxied:
        assert await reply(proxied, by_name(b"gone.test", 443)) == 4
        assert proxied.denials == []


async def test_a_client_that_insists_on_a_password_is_told_no() -> None:
    async with proxy(["example.test"]) as proxied:
        assert await proxied.ask(b"\x05\x01\x02") == b"\x05\xff"


@pytest.mark.parametrize(
    "nonsense", [b"\x05", b"\x05\x00", b"\x05\x01\x00\x05\x01\x00\x09", b"\x05\x01\x00\x04\x01\x00\x01", b"\x04\x01"]
)
async def test_nonsense_ends_the_connection_and_nothing_else(nonsense: bytes) -> None:
    async with origin() as canary, allowed(canary) as proxied:
        reader, writer = await proxied.open()
        writer.write(nonsense)
        writer.write_eof()
        await read_all(reader)
        writer.close()
        assert await reply(proxied, by_name(b"evil.test", 443)) == 2
        assert canary.visits == 0
