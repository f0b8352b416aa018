"""Tunnels: CONNECT to an allowed host passes every byte untouched, TLS included."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
from pathlib import Path

import pytest
from tests.egress.world import PATIENCE_S, allowed, eventually, origin, proxy, read_all, wait

pytestmark = pytest.mark.anyio


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


def serving(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_bytes_pass_both_ways_and_each_end_passes_on_its_own() -> None:
    async with origin(echo) as server, allowed(server) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        sent = bytes(range(256)) * 4000
        writer.write(sent)
        writer.write_eof()
        assert await read_all(reader) == sent
        writer.close()
        await eventually(lambda: len(proxied.connections) == 1)
        seen = proxied.connections[0]
        assert (seen.host, seen.port, seen.address, seen.way) == ("example.test", server.port, "127.0.0.1", "connect")
        assert (seen.sent, seen.received) == (len(sent), len(sent))
        assert proxied.denials == []


async def test_a_server_may_speak_first() -> None:
    async def banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        assert await reader.readline() == b"QUIT\r\n"
        writer.write(b"221 bye\r\n")

    async with origin(banner) as server, allowed(server) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        assert await wait(reader.readline()) == b"220 ready\r\n"
        writer.write(b"QUIT\r\n")
        assert await read_all(reader) == b"221 bye\r\n"
        writer.close()


async def test_bytes_that_come_with_the_request_are_not_lost() -> None:
    async with origin(echo) as server, allowed(server) as proxied:
        reader, writer = await proxied.open()
        writer.write(f"CONNECT example.test:{server.port} HTTP/1.1\r\n\r\nearly".encode())
        writer.write_eof()
        assert await read_all(reader) == b"HTTP/1.1 200 Connection established\r\n\r\nearly"
        writer.close()


async def test_tls_passes_through_with_the_servers_own_certificate(certificate: Path) -> None:
    async with origin(b"HTTP/1.1 200 OK\r\n\r\nsecret", serving(certificate)) as server, allowed(server) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        await wait(writer.start_tls(trusting(certificate), server_hostname="example.test"))
        assert writer.get_extra_info("peercert")["subjectAltName"][0] == ("DNS", "example.test")
        writer.write(b"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n")
        assert (await read_all(reader)).endswith(b"secret")
        writer.close()


async def test_tls_for_another_host_than_the_tunnels_is_refused(certificate: Path) -> None:
    async with origin(tls=serving(certificate)) as server, allowed(server) as proxied:
        _, writer = await proxied.tunnel("example.test", server.port)
        with pytest.raises((ssl.SSLError, ConnectionError)) as failure:
            await wait(writer.start_tls(trusting(certificate), server_hostname="other.test"))
        assert "ACCESS_DENIED" in str(failure.value)
        writer.transport.abort()
        await eventually(lambda: len(proxied.denials) == 1)
        assert proxied.denials[0].rule == "TLS must ask for the host of its tunnel"
        assert "other.test" in proxied.denials[0].hint
        assert server.heads == []
        await eventually(lambda: len(proxied.connections) == 1)
        assert proxied.connections[0].sent == 0


async def test_tls_that_begins_with_nonsense_is_refused() -> None:
    async with origin(echo) as server, allowed(server) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        writer.write(b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00")
        await read_all(reader)
        writer.close()
        assert proxied.denials[0].rule == "TLS must begin with a sound ClientHello"


async def test_websockets_work_through_a_tunnel() -> None:
    key = base64.b64encode(b"0123456789abcdef").decode()
    accept = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()

    async def websocket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"Upgrade: websocket" in await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        for _ in range(3):
            header = await reader.readexactly(6)
            mask, body = header[2:], await reader.readexactly(header[1] & 0x7F)
            text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
            writer.write(bytes([0x81, len(text)]) + text)

    async with origin(websocket) as server, allowed(server) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        writer.write(f"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        assert accept.encode() in await wait(reader.readuntil(b"\r\n\r\n"))
        for word in (b"one", b"two", b"three"):
            writer.write(bytes([0x81, 0x80 | len(word)]) + b"\0\0\0\0" + word)
            assert await wait(reader.readexactly(2 + len(word))) == bytes([0x81, len(word)]) + word
        writer.close()


async def test_a_server_that_cannot_be_reached_is_no_denial() -> None:
    async with proxy(["example.test:1", "127.0.0.1:1", "gone.test"], {"example.test": ["127.0.0.1"]}) as proxied:
        answer = await proxied.ask(b"CONNECT example.test:1 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 example.test:1 cannot be reached: ")
        answer = await proxied.ask(b"CONNECT gone.test:443 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 gone.test has no address: no such name")
        assert proxied.denials == []


async def test_a_tunnel_that_the_server_breaks_is_broken_for_the_guest() -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with origin(breaks) as server, allowed(server) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        writer.write(b"x")
        async with asyncio.timeout(PATIENCE_S):
            try:
                assert await reader.read() == b""
            except ConnectionError:
                pass
        writer.close()
