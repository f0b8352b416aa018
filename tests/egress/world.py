"""Servers, canaries and a proxy in one process, all on loopback; names lead where a test says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests import probe

from belljar.egress.caps import Caps
from belljar.egress.gate import Gate
from belljar.egress.line import Connection
from belljar.egress.server import Egress
from belljar.execution import Denial

T = TypeVar("T")
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PATIENCE_S = 20
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@dataclass
class Origin:
    """A server: its port, and every head and body that reached it."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    visits: int = 0


@dataclass
class Proxy:
    """A proxy under test, and all that it told."""

    egress: Egress
    port: int
    denials: list[Denial]
    connections: list[Connection]
    lookups: list[str]

    @property
    def gate(self) -> Gate:
        return probe.gate(self.egress)

    async def ask(self, request: bytes) -> bytes:
        """Everything that the proxy answers to these bytes."""
        reader, writer = await self.open()
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(request)
                await writer.drain()
            return await read_all(reader)
        finally:
            writer.close()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def tunnel(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A tunnel that was granted."""
        reader, writer = await self.open()
        writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        head = await wait(reader.readuntil(b"\r\n\r\n"))
        assert head.startswith(b"HTTP/1.1 200 "), head
        return reader, writer


async def wait(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, PATIENCE_S)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end, or until the connection breaks."""
    data = bytearray()
    with contextlib.suppress(ConnectionError):
        while more := await wait(reader.read(1 << 16)):
            data += more
    return bytes(data)


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def origin(talk: Talk | bytes = PLAIN, tls: ssl.SSLContext | None = None) -> AsyncIterator[Origin]:
    """A server that runs `talk` with each visitor, or reads one request with its body and answers these bytes."""
    made = Origin()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.visits += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            if isinstance(talk, bytes):
                made.heads.append(await read_request(reader))
                writer.write(talk)
                await writer.drain()
            else:
                await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(visit, "127.0.0.1", 0, ssl=tls, backlog=512)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """A head, and the body that it announces."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    for line in lines:
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.split(b":")[1]))
    if b"transfer-encoding: chunked" in lines:
        return head + await reader.readuntil(b"0\r\n\r\n")
    return head


@contextlib.asynccontextmanager
async def proxy(
    network: Sequence[str] | None,
    names: Mapping[str, Sequence[str]] | None = None,
    caps: Caps | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Proxy]:
    """A proxy on loopback. Names that are not given have no address."""
    denials: list[Denial] = []
    lookups: list[str] = []

    async def resolver(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        if host not in (names or {}):
            raise OSError("no such name")
        return (names or {})[host]

    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = listener.getsockname()[1]
    egress = Egress(network, caps=caps, resolver=resolver, on_denial=denials.append, tls=tls)
    connections = probe.record_connections(egress)
    egress.listen(listener)
    try:
        yield Proxy(egress, port, denials, connections, lookups)
    finally:
        await wait(egress.close())
        assert probe.gate(egress).open == 0


@contextlib.asynccontextmanager
async def allowed(origin: Origin, caps: Caps | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """A proxy that lets example.test through to an origin on loopback."""
    network = [f"example.test:{origin.port}", f"127.0.0.1:{origin.port}"]
    async with proxy(network, {"example.test": ["127.0.0.1"]}, caps, tls) as made:
        yield made
