"""Requests by method call, for a guest without sockets: the same rules, on every hop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.egress.world import allowed, eventually, origin, proxy, read_request, wait

from belljar import SandboxClosed
from belljar.egress.caps import Caps
from belljar.egress.refusals import Refused, Unreachable, Untrusted

pytestmark = pytest.mark.anyio


def redirect(to: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


async def test_a_response_has_status_headers_and_body() -> None:
    answer = b"HTTP/1.1 201 Made\r\nX-Two: 1\r\nX-Two: 2\r\nKeep-Alive: 1\r\nContent-Length: 5\r\n\r\nhello"
    async with origin(answer) as server, allowed(server) as proxied:
        url = f"http://example.test:{server.port}/a?b"
        response = await wait(proxied.egress.fetch("POST", url, {"X-Mine": "ä", "Host": "evil.test"}, b"body"))
        assert (response.status, response.reason, response.url) == (201, "Made", url)
        assert response.headers == [("x-two", "1"), ("x-two", "2"), ("content-length", "5")]
        assert await wait(response.read()) == b"hello"
        assert server.heads[0].split(b"\r\n") == [
            b"POST /a?b HTTP/1.1",
            f"host: example.test:{server.port}".encode(),
            b"x-mine: \xe4",
            b"accept-encoding: identity",
            b"content-length: 4",
            b"connection: close",
            b"",
            b"body",
        ]
        assert proxied.gate.open == 0
        assert proxied.connections[0].way == "fetch"


async def test_bodies_stream_both_ways() -> None:
    async def halves() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(await read_request(reader))
        for piece in (b"3\r\nabc\r\n", b"3\r\ndef\r\n"):
            writer.write(
                (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if piece[3:4] == b"a" else b"") + piece
            )
            await writer.drain()
            await go_on.wait()
        writer.write(b"0\r\n\r\n")

    sent: list[bytes] = []
    go_on = asyncio.Event()
    async with origin(answer) as server, allowed(server) as proxied:
        response = await wait(proxied.egress.fetch("PUT", f"http://example.test:{server.port}/", body=halves()))
        pieces = aiter(response)
        assert await wait(anext(pieces)) == b"abc"
        go_on.set()
        assert b"".join([piece async for piece in pieces]) == b"def"
        assert sent[0].endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


async def test_tls_is_spoken_and_the_certificate_is_checked(certificate: Path) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with origin(tls=serving) as server:
        async with allowed(server, tls=trusting) as proxied:
            response = await wait(proxied.egress.fetch("GET", f"https://example.test:{server.port}/"))
            assert await wait(response.read()) == b"hello"
            with pytest.raises(Refused):
                await proxied.egress.fetch("GET", f"https://other.test:{server.port}/")
        async with allowed(server) as proxied:
            with pytest.raises(Unreachable, match="certificate"):
                await wait(proxied.egress.fetch("GET", f"https://example.test:{server.port}/"))
            assert proxied.gate.open == 0


@pytest.mark.parametrize(
    "url",
    ["http://evil.test/", "http://example.test:1/", "ftp://example.test/", "http://127.0.0.1:{port}/", "http://2130706433:{port}/",
     "http://user@example.test:{port}/", "http://example.test:{port}\\@evil/", "http://exa mple.test:{port}/", "file:///etc/passwd",
     "data:text/plain,x", "//example.test/", "/", "", "http://example.test:{port}/\r\nX: 1", "https://127.0.0.1:{port}/"],
)  # fmt: skip
async def test_what_is_not_allowed_is_refused_and_reported(url: str) -> None:
    async with origin() as canary, proxy([f"example.test:{canary.port}"], {"evil.test": ["127.0.0.1"]}) as proxied:
        with pytest.raises(Refused):
            await proxied.egress.fetch("GET", url.format(port=canary.port))
        assert (canary.visits, proxied.lookups, len(proxied.denials)) == (0, [], 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_e05_a_redirect_is_returned_and_a_followed_one_is_checked(status: int) -> None:
    async with origin() as canary:
        async with origin(redirect(f"http://127.0.0.1:{canary.port}/", status)) as server, allowed(server) as proxied:
            url = f"http://example.test:{server.port}/"
            async with await proxied.egress.fetch("GET", url) as response:
                assert response.status == status
            with pytest.raises(Refused, match=r"not in Policy\.network"):
                await proxied.egress.fetch("GET", url, redirects=10)
            assert (canary.visits, proxied.denials[0].target) == (0, f"127.0.0.1:{canary.port}")


async def test_e05_a_chain_of_redirects_ends_at_the_callers_number() -> None:
    async def hop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await read_request(reader)).split()[1].decode())
        writer.write(redirect(f"{int(asked[-1][1:]) + 1}"))

    asked: list[str] = []
    async with origin(hop) as server, allowed(server) as proxied:
        with pytest.raises(Refused, match="at most 10 redirects"):
            await wait(proxied.egress.fetch("GET", f"http://example.test:{server.port}/0", redirects=10))
        assert asked == [f"/{number}" for number in range(11)]
        assert proxied.gate.open == 0


async def test_a_followed_redirect_keeps_secrets_to_their_host() -> None:
    async with origin() as other:
        for status, method in ((303, b"GET"), (302, b"GET"), (307, b"POST"), (308, b"POST")):
            async with origin(redirect(f"http://127.0.0.1:{other.port}/next", status)) as server:
                network = [f"127.0.0.1:{server.port}", f"127.0.0.1:{other.port}"]
                async with proxy(network) as proxied:
                    secrets = {
                        "Authorization": "Bearer x",
                        "Cookie": "a=b",
                        "X-Kept": "1",
                        "Content-Type": "text/plain",
                    }
                    url = f"http://127.0.0.1:{server.port}/"
                    response = await wait(proxied.egress.fetch("POST", url, secrets, b"body", redirects=1))
                    assert (response.status, response.url) == (200, f"http://127.0.0.1:{other.port}/next")
                    await response.close()
            assert b"Bearer" in server.heads[0]
            assert other.heads[-1].startswith(method)
            assert other.heads[-1].endswith(b"body") == (method == b"POST")
            assert b"x-kept: 1" in other.heads[-1]
            assert b"Bearer" not in other.heads[-1]
            assert b"a=b" not in other.heads[-1]


@pytest.mark.parametrize(
    ("method", "headers"),
    [("GET", {"X": "a\r\nY: b"}), ("GET", {"X\r\n": "a"}), ("GE T", {}), ("GET\r\n", {}), ("CONNECT", {}), ("", {}), ("GET", {"X": "€"}), ("GET", {"": "x"}), ("GET", {"X": "\x00"})],
)  # fmt: skip
async def test_malformed_requests_are_refused(method: str, headers: dict[str, str]) -> None:
    async with origin() as canary, allowed(canary) as proxied:
        with pytest.raises(Refused):
            await proxied.egress.fetch(method, f"http://example.test:{canary.port}/", headers)
        assert (canary.visits, proxied.gate.open) == (0, 0)


async def test_headers_that_frame_or_route_a_request_are_not_the_guests() -> None:
    async with origin() as server, allowed(server) as proxied:
        given = [("Transfer-Encoding", "chunked"), ("Content-Length", "99"), ("Connection", "X-Gone"), ("X-Gone", "1")]
        response = await proxied.egress.fetch("POST", f"http://example.test:{server.port}/", given, b"abc")
        await response.read()
        assert server.heads[0].endswith(b"content-length: 3\r\nconnection: close\r\n\r\nabc")
        assert b"gone" not in server.heads[0].lower()


async def test_a_response_that_nobody_reads_ends_with_its_time() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with origin(endless) as server, allowed(server, Caps(idle_s=0.5, received_bytes=1 << 20)) as proxied:
        response = await proxied.egress.fetch("GET", f"http://example.test:{server.port}/")
        await eventually(lambda: proxied.gate.open == 0)
        assert len(proxied.connections) == 1
        with pytest.raises(Refused, match="idle"):
            await wait(response.read())
        assert proxied.gate.open == 0
        response = await proxied.egress.fetch("GET", f"http://example.test:{server.port}/")
        with pytest.raises(Refused, match="may receive"):
            await wait(response.read())
        assert proxied.gate.open == 0


async def test_fetches_count_as_connections() -> None:
    async with origin() as server, allowed(server, Caps(connections=1)) as proxied:
        url = f"http://example.test:{server.port}/"
        first = await proxied.egress.fetch("GET", url)
        with pytest.raises(Refused, match="1 connections at once"):
            await proxied.egress.fetch("GET", url)
        await first.close()
        async with await proxied.egress.fetch("GET", url) as second:
            assert await second.read() == b"hello"


async def test_closing_the_proxy_ends_a_fetch_that_waits() -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with origin(silence) as server, allowed(server) as proxied:
        url = f"http://example.test:{server.port}/"
        waiting = asyncio.create_task(proxied.egress.fetch("GET", url))
        await eventually(lambda: server.visits == 1)
        await proxied.egress.close()
        with pytest.raises(Unreachable, match="closed"):
            await wait(waiting)
        with pytest.raises(SandboxClosed):
            await proxied.egress.fetch("GET", url)
        assert proxied.denials == []


async def test_a_body_that_ends_early_is_unreachable_and_not_whole() -> None:
    async with origin(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort") as server, allowed(server) as proxied:
        response = await proxied.egress.fetch("GET", f"http://example.test:{server.port}/")
        with pytest.raises(Unreachable):
            await wait(response.read())
        assert proxied.gate.open == 0


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_streamed_body_of_known_length_is_sent_with_it() -> None:
    async with origin() as server, allowed(server) as proxied:
        url = f"http://example.test:{server.port}/"
        connected: list[int] = []
        response = await wait(
            proxied.egress.fetch(
                "PUT", url, (), pieces(b"ab", b"cd"), length=4, on_connect=lambda: connected.append(server.visits)
            )
        )
        assert await wait(response.read()) == b"hello"
        assert b"content-length: 4\r\n" in server.heads[0]
        assert server.heads[0].endswith(b"\r\n\r\nabcd")
        assert len(connected) == 1


@pytest.mark.parametrize("length", [3, 5])
async def test_a_streamed_body_of_another_length_than_was_said_is_refused(length: int) -> None:
    async with origin() as server, allowed(server) as proxied:
        with pytest.raises(Refused, match="well-formed"):
            await wait(
                proxied.egress.fetch(
                    "PUT", f"http://example.test:{server.port}/", (), pieces(b"ab", b"cd"), length=length
                )
            )
        assert proxied.gate.open == 0


async def test_a_response_that_announces_more_than_the_cap_is_refused_before_it_comes() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello"
    async with origin(answer) as server, allowed(server, Caps(received_bytes=900)) as proxied:
        url = f"http://example.test:{server.port}/"
        with pytest.raises(Refused, match="may receive 900 bytes"):
            await wait(proxied.egress.fetch("GET", url))
        assert (await wait(proxied.egress.fetch("HEAD", url))).header("content-length") == "1000"


async def test_a_certificate_that_cannot_be_trusted_is_a_failure_of_its_own(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with origin(tls=context) as server, allowed(server) as proxied:
        with pytest.raises(Untrusted, match=r"cannot be trusted: self.signed certificate"):
            await wait(proxied.egress.fetch("GET", f"https://example.test:{server.port}/"))
