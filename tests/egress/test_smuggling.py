"""Nothing can be smuggled through the proxy: what two servers could read differently is refused."""

from __future__ import annotations

import asyncio

import pytest
from tests.egress.world import allowed, eventually, origin, read_all

from belljar.egress.caps import Caps

pytestmark = pytest.mark.anyio


SMUGGLED = {
    "both lengths": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "two equal lengths": "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": "Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": "Content-Length: +5\r\n\r\nhello",
    "a length in hexadecimal": "Content-Length: 0x5\r\n\r\nhello",
    "a negative length": "Content-Length: -1\r\n\r\n",
    "an enormous length": "Content-Length: 99999999999999999999\r\n\r\n",
    "two codings": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding that is almost chunked": "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding with a control character": "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a space in front of the colon": "Content-Length : 5\r\n\r\nhello",
    "a header without a name": ": 5\r\n\r\n",
    "a folded line": "X: 1\r\n Content-Length: 5\r\n\r\nhello",
    "a folded line with a tab": "X: 1\r\n\tY: 2\r\n\r\n",
    "a bare line feed": "X: 1\nContent-Length: 5\r\n\r\nhello",
    "a bare end": "X: 1\n\nGET http://evil.test/ HTTP/1.1\r\n\r\n",
    "a bare carriage return": "X: 1\rContent-Length: 5\r\n\r\nhello",
    "a zero byte": "X: \x001\r\n\r\n",
    "a second host": "Host: evil.test\r\n\r\n",
    "a line without a colon": "nonsense\r\n\r\n",
    "too many headers": "A: 1\r\n" * 200 + "\r\n",
}


@pytest.mark.parametrize("what", SMUGGLED)
async def test_a_request_that_two_servers_could_read_differently_is_refused(what: str) -> None:
    async with origin() as canary, allowed(canary) as proxied:
        start = f"POST http://example.test:{canary.port}/ HTTP/1.1\r\nHost: example.test:{canary.port}\r\n"
        answer = await proxied.ask((start + SMUGGLED[what]).encode("latin-1"))
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 ")), answer
        assert (canary.visits, len(proxied.denials)) == (0, 1)


@pytest.mark.parametrize(
    "body",
    ["5\nhello\r\n0\r\n\r\n", "5\r\nhelloo\r\n0\r\n\r\n", "-1\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n",
     "g\r\n", "5\r\nhello", "\r\n\r\n", "fffffffffffffffffffff\r\n", " 5\r\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n"],
)  # fmt: skip
async def test_a_badly_chunked_body_never_ends_a_request(body: str) -> None:
    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read())
        while more := await reader.read():
            seen.append(more)

    seen: list[bytes] = []
    async with origin(collect) as server, allowed(server) as proxied:
        reader, writer = await proxied.open()
        writer.write(
            f"POST http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n"
            f"Transfer-Encoding: chunked\r\n\r\n{body}".encode()
        )
        writer.write_eof()
        assert (await read_all(reader)).startswith(b"HTTP/1.1 400 ")
        writer.close()
        await eventually(lambda: len(proxied.connections) == 1)
        assert len(proxied.denials) == 1
        assert not b"".join(seen).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "example.test",
        "example.test:80",
        "example.test:{port}, evil.test",
        "",
        "evil.test@example.test:{port}",
    ],
)
async def test_a_host_header_that_differs_from_the_url_is_refused(host: str) -> None:
    async with origin() as canary, allowed(canary) as proxied:
        named = host.format(port=canary.port)
        answer = await proxied.ask(f"GET http://example.test:{canary.port}/ HTTP/1.1\r\nHost: {named}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 ")
        answer = await proxied.ask(f"CONNECT example.test:{canary.port} HTTP/1.1\r\nHost: evil.test\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert (canary.visits, proxied.lookups) == (0, [])


async def test_connection_cannot_name_away_what_frames_the_request() -> None:
    async with origin() as server, allowed(server) as proxied:
        await proxied.ask(
            f"POST http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n"
            "Connection: content-length, host\r\nContent-Length: 5\r\n\r\nhello".encode()
        )
        assert b"content-length: 5\r\n" in server.heads[0].lower()
        assert server.heads[0].endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize(
    "start", [b"GET http://example.test/ HTTP/1.1\n\n", b"GET /\rX", b"\r\nGET", b"\x16\x03\x01", b"\x00"]
)
async def test_what_cannot_become_a_request_is_refused_without_waiting_for_its_end(start: bytes) -> None:
    async with origin() as canary, allowed(canary, Caps(head_s=600)) as proxied:
        assert (await proxied.ask(start)).startswith(b"HTTP/1.1 400 ")
        assert canary.visits == 0
