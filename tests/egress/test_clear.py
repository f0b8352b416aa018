"""HTTP in the clear inside a tunnel: it asks for the tunnel's own host, in every request, and passes untouched."""

from __future__ import annotations

import asyncio

import pytest
from tests.egress.world import allowed, eventually, origin, read_all, wait

pytestmark = pytest.mark.anyio

RULE = "HTTP in the clear must ask for the host of its tunnel"
GET = b"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n"
OTHER = b"GET /admin HTTP/1.1\r\nHost: other.test\r\n\r\n"
ELSEWHERE = [
    OTHER,
    b"\r\n\r\n" + OTHER,
    b"GET http://other.test/ HTTP/1.1\r\nHost: example.test\r\n\r\n",
    b"GET http://other.test/ HTTP/1.0\r\n\r\n",
    b"get / http/1.1\r\nHost: other.test\r\n\r\n",
    b" GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    b"GET\x0b/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
    b"GET / HTTP/1.1\nHost: other.test\n\n",
    b"GET / HTTP/1.1\r\nHost: example.test\r\nHost: other.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: example.test\r\n Host: other.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: example.test:1\r\n\r\n",
    b"CONNECT other.test:443 HTTP/1.1\r\n\r\n",
    GET + OTHER,
    GET + b"\r\n" + OTHER,
    b"POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 3\r\n\r\nabc" + OTHER,
    b"POST / HTTP/1.1\r\nHost: example.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + OTHER,
    b"GET / HTTP/1.1\r\nHost: example.test\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + OTHER,
]


class Sponge:
    """A server that keeps all it is sent and says nothing until the end."""

    def __init__(self) -> None:
        self.taken = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.taken += data
        writer.write(b"done")


@pytest.mark.parametrize("piece", [1, 1 << 16], ids=["byte by byte", "at once"])
async def test_another_host_is_refused_however_it_is_asked_for(piece: int) -> None:
    sponge = Sponge()
    async with origin(sponge) as server, allowed(server) as proxied:
        for number, request in enumerate(ELSEWHERE, 1):
            reader, writer = await proxied.tunnel("example.test", server.port)
            for at in range(0, len(request), piece):
                writer.write(request[at : at + piece])
                await asyncio.sleep(0)
            answer = await read_all(reader)
            writer.close()
            await eventually(lambda count=number: len(proxied.denials) == count)
            assert b"done" not in answer, request
            assert answer.startswith(b"HTTP/1.1 40"), request
        assert b"other.test\r\n\r\n" not in sponge.taken
        assert b"other.test\n\n" not in sponge.taken
        assert proxied.denials[0].rule == RULE
        assert "other.test inside a tunnel to example.test" in proxied.denials[0].hint


@pytest.mark.parametrize("piece", [1, 1 << 16], ids=["byte by byte", "at once"])
async def test_requests_for_the_tunnels_host_pass_to_the_byte(piece: int) -> None:
    sponge = Sponge()
    async with origin(sponge) as server, allowed(server) as proxied:
        host = f"Host: example.test:{server.port}\r\n".encode()
        chunks = b"4;x=y\r\nwide\r\n0\r\nTrailer: 1\r\n\r\n"
        said = b"".join(
            [
                GET,
                b"\r\nPOST /a HTTP/1.1\r\n" + host + b"Content-Length: 5\r\n\r\nGET /",
                b"PUT /b HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
                f"GET http://EXAMPLE.test:{server.port}/ HTTP/1.1\r\n\r\n".encode(),
                b"GET /chat HTTP/1.1\r\n" + host + b"Upgrade: websocket\r\n\r\n\x81\x85\n\0 HTTP/1.1\n frames",
            ]
        )
        reader, writer = await proxied.tunnel("example.test", server.port)
        for at in range(0, len(said), piece):
            writer.write(said[at : at + piece])
            await asyncio.sleep(0)
        writer.write_eof()
        assert await read_all(reader) == b"done"
        writer.close()
        assert (sponge.taken, proxied.denials) == (said, [])


@pytest.mark.parametrize(
    "said", [b"PING", b'{"a": 1}', b"GET", b"EHLO me\r\n", b"SSH-2.0-x\r\n", b"PRI * HTTP/2.0\r\n"]
)
async def test_other_protocols_wait_for_nothing(said: bytes) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)

    async with origin(echo) as server, allowed(server) as proxied:
        reader, writer = await proxied.tunnel("example.test", server.port)
        writer.write(said)
        assert await wait(reader.readexactly(len(said))) == said
        writer.close()
        assert proxied.denials == []
