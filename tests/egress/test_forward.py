"""Plain HTTP: a request reaches its host rewritten, and its response comes back whole."""

from __future__ import annotations

import asyncio

import pytest
from tests.egress.world import Proxy, allowed, origin, read_all, read_request, wait

pytestmark = pytest.mark.anyio


async def exchange(proxied: Proxy, request: bytes) -> tuple[bytes, bytes]:
    head, _, body = (await proxied.ask(request)).partition(b"\r\n\r\n")
    return head, body


async def test_a_request_is_rewritten_and_loses_what_was_meant_for_the_proxy() -> None:
    async with origin() as server, allowed(server) as proxied:
        request = (
            f"GET http://EXAMPLE.test.:{server.port}/path?q=1#part HTTP/1.1\r\nHost: example.test:{server.port}\r\n"
            "Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive, X-Hop\r\n"
            "X-Hop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nAccept: */*\r\n\r\n"
        )
        head, body = await exchange(proxied, request.encode())
        assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
        assert b"connection: close" in head.lower()
        assert body == b"hello"
        assert server.heads[0].split(b"\r\n") == [
            b"GET /path?q=1 HTTP/1.1",
            f"host: example.test:{server.port}".encode(),
            b"accept: */*",
            b"connection: close",
            b"",
            b"",
        ]


async def test_bodies_arrive_whether_counted_or_chunked() -> None:
    async with origin() as server, allowed(server) as proxied:
        start = f"POST http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n".encode()
        await exchange(proxied, start + b"Content-Length: 11\r\n\r\nhello world")
        await exchange(
            proxied,
            start + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: 1\r\n\r\n",
        )
        assert server.heads[0].endswith(b"\r\n\r\nhello world")
        assert server.heads[1].endswith(b"\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        assert b"railer" not in server.heads[1]


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"d\r\nuntil the end\r\n0\r\n\r\n"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 900\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", b"none"),
    ],
)
async def test_responses_of_every_framing_come_back_whole(answer: bytes, body: bytes) -> None:
    async with origin(answer) as server, allowed(server) as proxied:
        request = f"GET http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n\r\n"
        _, got = await exchange(proxied, request.encode())
        assert got == body
        assert proxied.denials == []


async def test_old_clients_get_no_chunks_and_head_gets_no_body() -> None:
    async with origin(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n") as server:
        async with allowed(server) as proxied:
            _, body = await exchange(proxied, f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
            assert body == b"abc"
    async with origin(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n") as server, allowed(server) as proxied:
        head, body = await exchange(proxied, f"HEAD http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert body == b""


async def test_a_client_that_waits_for_continue_gets_it() -> None:
    async def patient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"expect: 100-continue" in head.lower()
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(4)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + body)

    async with origin(patient) as server, allowed(server) as proxied:
        reader, writer = await proxied.open()
        writer.write(
            f"PUT http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n"
            "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n".encode()
        )
        assert b" 100 " in await wait(reader.readuntil(b"\r\n\r\n"))
        writer.write(b"data")
        assert (await read_all(reader)).endswith(b"\r\n\r\ndata")
        writer.close()


async def test_an_answer_before_the_end_of_the_upload_is_handed_on() -> None:
    async def impatient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()

    async with origin(impatient) as server, allowed(server) as proxied:
        start = f"POST http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n"
        head, body = await exchange(proxied, start.encode() + b"Content-Length: 9000000\r\n\r\n" + b"x" * 500_000)
        assert head.startswith(b"HTTP/1.1 413")
        assert body == b"big"


async def test_only_one_request_is_taken_from_a_connection() -> None:
    async with origin() as server, allowed(server) as proxied:
        one = f"GET http://example.test:{server.port}/1 HTTP/1.1\r\nHost: example.test:{server.port}\r\n\r\n"
        answer = await proxied.ask((one + one.replace("/1 ", "/2 ")).encode())
        assert answer.count(b"HTTP/1.1 200") == 1
        assert [head.split()[1] for head in server.heads] == [b"/1"]


async def test_a_head_may_come_byte_by_byte() -> None:
    async with origin() as server, allowed(server) as proxied:
        reader, writer = await proxied.open()
        for (
            byte
        ) in f"GET http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n\r\n".encode():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await read_all(reader)).endswith(b"hello")
        writer.close()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"nonsense\r\n\r\n", b"502"),
        (b"", b"502"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"502"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"502"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, b"502"),
    ],
)
async def test_a_server_that_does_not_speak_http_is_a_bad_gateway(answer: bytes, status: bytes) -> None:
    async with origin(answer) as server, allowed(server) as proxied:
        got = await proxied.ask(f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())
        assert got.startswith(b"HTTP/1.1 " + status)
        assert proxied.denials == []


async def test_a_server_cannot_forge_a_denial() -> None:
    forged = (
        b"HTTP/1.1 403 Forbidden\r\nBelljar-Denied: example.test:80\r\nBELLJAR-rule: x\r\nContent-Length: 0\r\n\r\n"
    )
    async with origin(forged) as server, allowed(server) as proxied:
        url = f"http://example.test:{server.port}/"
        assert b"elljar" not in (await proxied.ask(f"GET {url} HTTP/1.0\r\n\r\n".encode())).lower()
        async with await proxied.egress.fetch("GET", url) as response:
            assert response.headers == [("content-length", "0")]


async def test_a_response_that_ends_early_does_not_look_whole() -> None:
    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

    async with origin(early) as server, allowed(server) as proxied:
        request = f"GET http://example.test:{server.port}/ HTTP/1.1\r\nHost: example.test:{server.port}\r\n\r\n"
        answer = await proxied.ask(request.encode())
        assert b"0\r\n\r\n" not in answer
