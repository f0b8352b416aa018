"""What is not allowed is refused before anything is asked about it, at once, and with a reason that clients show."""

from __future__ import annotations

import asyncio
import http.client
import time
import urllib.error
import urllib.request

import pytest
from tests.egress.world import Proxy, allowed, origin, proxy

pytestmark = pytest.mark.anyio


async def refused(proxied: Proxy, request: str, status: int = 403) -> str:
    """The refusal's text; the request must have met nothing but a refusal."""
    before = len(proxied.denials)
    answer = await proxied.ask(request.encode("latin-1"))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert len(proxied.denials) == before + 1
    return answer.decode("ascii")


@pytest.mark.parametrize("network", [None, [], ()])
@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT example.test:443",
        "GET http://example.test/",
        "GET http://127.0.0.1:{port}/",
        "CONNECT 127.0.0.1:{port}",
    ],
)
async def test_e01_an_empty_list_denies_all_without_a_lookup(network: list[str] | None, request_line: str) -> None:
    async with origin() as canary, proxy(network, {"example.test": ["127.0.0.1"]}) as proxied:
        text = await refused(proxied, request_line.format(port=canary.port) + " HTTP/1.0\r\n\r\n")
        assert "network is off" in text.splitlines()[0]
        assert (canary.visits, proxied.lookups) == (0, [])


@pytest.mark.parametrize(
    "host", ["evilexample.test", "example.test.evil", "sub.example.test", "xn--xample-9ua.test", "example.tes", "test"]
)
async def test_e02_names_that_look_like_an_allowed_one_are_blocked_before_dns(host: str) -> None:
    async with origin() as canary:
        port = canary.port
        network = [f"example.test:{port}", f"127.0.0.1:{port}"]
        async with proxy(network, {host: ["127.0.0.1"]}) as proxied:
            for request in (f"CONNECT {host}:{port} HTTP/1.0\r\n\r\n", f"GET http://{host}:{port}/ HTTP/1.0\r\n\r\n"):
                text = await refused(proxied, request)
                assert "host is not in Policy.network; allowed: example.test" in text.splitlines()[0]
            assert (canary.visits, proxied.lookups) == (0, [])


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("CONNECT example.test:8443", 403),
        ("GET http://example.test:8080/", 403),
        ("GET ftp://example.test/", 403),
        ("GET file:///etc/passwd", 403),
        ("GET gopher://example.test/", 403),
        ("GET https://example.test/", 403),
        ("GET http://example.test@evil.test/", 400),
        ("GET http://example.test:80@evil.test/", 400),
        ("CONNECT example.test@evil.test:443", 400),
        ("GET http://evil.test\\@example.test/", 400),
        ("GET http://evil.test%2f@example.test/", 400),
        ("GET http://example.test%00.evil.test/", 400),
        ("GET http://example.test%0d%0a/", 400),
        ("GET http:example.test", 400),
        ("GET http:///example.test", 400),
        ("GET //example.test/", 400),
        ("GET /", 400),
        ("OPTIONS *", 400),
        ("CONNECT example.test", 400),
        ("CONNECT :443", 400),
        ("CONNECT example.test:443:443", 400),
        ("CONNECT https://example.test:443", 400),
        ("CONNECT [fe80::1%25lo]:443", 400),
    ],
)
async def test_e02_other_ports_schemes_and_forms_are_blocked_before_dns(request_line: str, status: int) -> None:
    names = {"example.test": ["127.0.0.1"], "evil.test": ["127.0.0.1"]}
    async with origin() as canary, proxy(["example.test"], names) as proxied:
        await refused(proxied, f"{request_line} HTTP/1.0\r\n\r\n", status)
        assert (canary.visits, proxied.lookups) == (0, [])


@pytest.mark.parametrize(
    "spelling",
    ["127.0.0.1", "2130706433", "0177.0.0.1", "0x7f000001", "127.1", "127.0.0.01", "0", "0.0.0.0", "[::1]", "[::]",
     "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost"],
)  # fmt: skip
async def test_e03_no_spelling_of_loopback_reaches_a_listener(spelling: str) -> None:
    async with origin() as canary, proxy(["example.test", f"1.1.1.1:{canary.port}"]) as proxied:
        await refused(proxied, f"CONNECT {spelling}:{canary.port} HTTP/1.0\r\n\r\n")
        await refused(proxied, f"GET http://{spelling}:{canary.port}/ HTTP/1.0\r\n\r\n")
        assert (canary.visits, proxied.lookups) == (0, [])


@pytest.mark.parametrize(
    "spelling",
    ["169.254.169.254", "2852039166", "0251.0376.0251.0376", "0xa9fea9fe", "169.254.43518", "[fd00:ec2::254]"],
)
async def test_e03_no_spelling_of_the_metadata_address_is_let_through(spelling: str) -> None:
    async with proxy(["example.test"]) as proxied:
        await refused(proxied, f"GET http://{spelling}/latest/meta-data/ HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize("spelling", ["127.0.0.1", "2130706433", "127.1", "[::ffff:127.0.0.1]"])
async def test_an_address_that_is_listed_is_reached_in_every_spelling(spelling: str) -> None:
    async with origin() as server, proxy([f"127.0.0.1:{server.port}"]) as proxied:
        answer = await proxied.ask(f"GET http://{spelling}:{server.port}/ HTTP/1.0\r\n\r\n".encode())
        assert answer.endswith(b"hello")
        assert f"host: 127.0.0.1:{server.port}\r\n".encode() in server.heads[0].lower()


async def test_a_denial_names_the_rule_and_what_is_allowed_in_headers_and_body() -> None:
    async with proxy(["example.test", "*.example.org:8080"]) as proxied:
        begun = time.monotonic()
        head, _, body = (await proxied.ask(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")).partition(
            b"\r\n\r\n"
        )
        assert time.monotonic() - begun < 5
        sentence = b"evil.test:80 was refused: host is not in Policy.network; allowed: example.test, *.example.org:8080"
        assert head.split(b"\r\n") == [
            b"HTTP/1.1 403 " + sentence,
            b"Content-Type: text/plain; charset=us-ascii",
            b"Content-Length: %d" % (len(sentence) + 1),
            b"Connection: close",
            b"Belljar-Denied: evil.test:80",
            b"Belljar-Rule: host is not in Policy.network",
            b"Belljar-Hint: allowed: example.test, *.example.org:8080",
        ]
        assert body == sentence + b"\n"
        assert [(d.kind, d.target, d.source) for d in proxied.denials] == [("network", "evil.test:80", "egress")]


async def test_what_a_guest_wrote_cannot_forge_lines_of_the_answer() -> None:
    async with proxy(["example.test"]) as proxied:
        answer = await proxied.ask(b"GET http://e%0d%0aForged:%201/ HTTP/1.1\r\nHost: x\xff\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"\r\nForged" not in answer
        long = b"a" * 9000
        answer = await proxied.ask(b"CONNECT " + long + b":443 HTTP/1.1\r\n\r\n")
        assert len(answer) < 5000


async def test_clients_of_the_standard_library_show_the_reason() -> None:
    async with proxy(["example.test"]) as proxied:

        def by_tunnel() -> str:
            client = http.client.HTTPSConnection("127.0.0.1", proxied.port, timeout=20)
            client.set_tunnel("evil.test", 443)
            with pytest.raises(OSError) as failure:
                client.request("GET", "/")
            return str(failure.value)

        def by_urllib() -> str:
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{proxied.port}"})
            )
            with pytest.raises(urllib.error.HTTPError) as failure:
                opener.open("http://evil.test/", data=b"x" * 100_000, timeout=20)
            with failure.value as response:
                return f"{response} {response.read().decode()}"

        for client in (by_tunnel, by_urllib):
            text = await asyncio.to_thread(client)
            assert "403" in text
            assert "host is not in Policy.network; allowed: example.test" in text


async def test_a_denial_does_not_end_the_proxy() -> None:
    async with origin() as server, allowed(server) as proxied:
        for _ in range(20):
            await refused(proxied, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
        assert (await proxied.ask(f"GET http://example.test:{server.port}/ HTTP/1.0\r\n\r\n".encode())).endswith(
            b"hello"
        )
