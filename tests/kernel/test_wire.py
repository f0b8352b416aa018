"""What stands in for a socket where there is none: bytes of requests in, Events out; mail in, bytes of responses out."""

from __future__ import annotations

import base64
import http.client
import json
from collections import deque
from typing import Any

import pytest

from belljar_kernel import fetch
from belljar_kernel.fetch import LEAST_BYTES, PIECE_BYTES, WINDOW_BYTES, Fetch
from belljar_kernel.mail import Mail
from belljar_kernel.wire import Wire


class Letter(bytes):
    """A message as JavaScript hands it over."""

    def to_bytes(self) -> bytes:
        return bytes(self)


class Host:
    """What a test says that the host answers, and what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._letters: deque[Letter] = deque()

    def send(self, kind: str, fields: dict[str, Any]) -> None:
        self.sent.append((kind, fields))
        if kind == "fetch":
            self.answer(b"C")

    def answer(self, kind: bytes, data: bytes = b"", number: int | None = None) -> None:
        last = next(fields["fetch"] for name, fields in reversed(self.sent) if name == "fetch")
        self._letters.append(Letter(kind + (number or last).to_bytes(4, "big") + data))

    def respond(self, body: bytes = b"", status: int = 200, headers: dict[str, str] | None = None) -> None:
        head = {"status": status, "reason": "OK", "url": "", "headers": [*(headers or {}).items()]}
        self.answer(b"H", json.dumps(head).encode())
        self.answer(b"D", body)
        self.answer(b"E")

    def take(self) -> Letter | None:
        return self._letters.popleft() if self._letters else None

    def asked(self) -> dict[str, Any]:
        return next(fields for name, fields in reversed(self.sent) if name == "fetch")

    def body(self) -> list[tuple[bytes, bool]]:
        return [(base64.b64decode(f["data"]), f["last"]) for name, f in self.sent if name == "fetch_body"]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    fresh = Mail()
    fresh.send = made.send
    fresh.denials.hosts = ["example.test"]
    fresh.connect(made.take)
    monkeypatch.setattr(fetch, "mail", fresh)
    return made


def wired(host: str = "example.test", port: int = 80) -> http.client.HTTPConnection:
    """A connection of the standard library's, with a wire in place of its socket."""
    connection = http.client.HTTPConnection(host, port)
    connection.sock = Wire("http", host, port, 5)  # type: ignore[assignment]
    return connection


def test_a_request_and_its_response_pass_unchanged(host: Host):
    connection = wired()
    connection.request("GET", "/a?b=c", headers={"X-One": "1"})
    asked = host.asked()
    assert (asked["method"], asked["url"], asked["length"]) == ("GET", "http://example.test:80/a?b=c", None)
    assert ["X-One", "1"] in asked["headers"]
    host.respond(b"hello", headers={"content-length": "5", "x-two": "2"})
    response = connection.getresponse()
    assert (response.status, response.headers["X-Two"], response.read()) == (200, "2", b"hello")
    connection.request("GET", "/again")  # the same connection
    host.respond(b"", 204)
    assert connection.getresponse().status == 204


def test_a_response_without_a_length_ends_with_the_connection(host: Host):
    connection = wired()
    connection.request("GET", "/")
    host.respond(b"whole", headers={"content-type": "text/plain"})
    response = connection.getresponse()
    assert response.will_close
    assert response.read() == b"whole"


def test_bodies_have_their_length_and_end_with_it(host: Host):
    connection = wired()
    connection.request("POST", "/", body=b"x" * (PIECE_BYTES + 1))
    assert host.asked()["length"] == PIECE_BYTES + 1
    assert [(len(data), last) for data, last in host.body()] == [(PIECE_BYTES, False), (1, True)]


def test_an_empty_body_is_a_body(host: Host):
    wired().request("POST", "/", body=b"")
    assert (host.asked()["length"], host.body()) == (0, [(b"", True)])


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_chunks_are_understood_however_they_are_cut(host: Host, size: int):
    wire = Wire("http", "example.test", 80)
    request = b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    for start in range(0, len(request), size):
        wire.sendall(request[start : start + size])
    assert host.asked()["length"] == -1
    assert b"".join(data for data, _ in host.body()) == b"hello!"
    assert [last for _, last in host.body()][-1] is True


def test_a_body_waits_until_some_of_it_went_on_and_stops_when_the_answer_is_there(host: Host):
    made = Fetch("POST", "http://example.test/", (), 10 * WINDOW_BYTES)
    steps = made.written(b"x" * (2 * WINDOW_BYTES))
    next(steps)
    assert sum(len(data) for data, _ in host.body()) == WINDOW_BYTES
    host.answer(b"T", (LEAST_BYTES).to_bytes(4, "big"))
    fetch.mail.deliver()
    next(steps)  # not enough for a piece
    host.answer(b"T", (PIECE_BYTES - LEAST_BYTES).to_bytes(4, "big"))
    fetch.mail.deliver()
    next(steps)
    assert sum(len(data) for data, _ in host.body()) == WINDOW_BYTES + PIECE_BYTES
    host.respond(b"no more", 413)
    fetch.mail.deliver()
    assert list(steps) == []
    assert sum(len(data) for data, _ in host.body()) == WINDOW_BYTES + PIECE_BYTES


def test_what_was_read_is_told_so_that_more_comes(host: Host):
    made = Fetch("GET", "http://example.test/")
    host.answer(b"H", json.dumps({"status": 200, "reason": "", "url": "", "headers": []}).encode())
    for _ in range(WINDOW_BYTES // PIECE_BYTES):
        host.answer(b"D", b"x" * PIECE_BYTES)
    assert len(made.now(made.read()) + made.now(made.read())) == 2 * PIECE_BYTES
    assert sum(fields["count"] for kind, fields in host.sent if kind == "fetch_taken") == WINDOW_BYTES // 2


def test_tunnels_are_refused_and_addresses_have_brackets(host: Host):
    with pytest.raises(OSError, match="proxies cannot be used"):
        Wire("http", "proxy.test", 3128).sendall(b"CONNECT example.test:443 HTTP/1.0\r\n\r\n")
    Wire("https", "::1", 8443).sendall(b"GET /x HTTP/1.1\r\n\r\n")
    assert host.asked()["url"] == "https://[::1]:8443/x"
    Wire("http", "proxy.test", 3128).sendall(b"GET http://example.test/y HTTP/1.1\r\n\r\n")
    assert host.asked()["url"] == "http://example.test/y"


def test_a_refusal_comes_with_the_request_and_a_break_with_the_body(host: Host):
    connection = wired()
    host.send = lambda kind, fields: host.sent.append((kind, fields)) or _refuse(host, kind)  # type: ignore[method-assign]
    fetch.mail.send = host.send
    with pytest.raises(ConnectionRefusedError, match="was refused: a rule"):
        connection.request("GET", "/")
    host = Host()
    fetch.mail.send = host.send
    fetch.mail.connect(host.take)
    connection = wired()
    connection.request("GET", "/")
    host.answer(
        b"H", json.dumps({"status": 200, "reason": "", "url": "", "headers": [["content-length", "9"]]}).encode()
    )
    host.answer(b"D", b"hel")
    host.answer(b"F", json.dumps({"kind": "unreachable", "message": "it broke"}).encode())
    response = connection.getresponse()
    assert response.read(3) == b"hel"
    with pytest.raises(ConnectionError, match="it broke"):
        response.read()


def test_a_wait_that_takes_too_long_is_a_timeout_and_what_nobody_has_is_closed(host: Host):
    made = Fetch("GET", "http://example.test/")
    with pytest.raises(TimeoutError):
        made.now(made.answered(), 0.01)
    number = made.number
    del made
    assert host.sent[-1] == ("fetch_close", {"fetch": number})


def _refuse(host: Host, kind: str) -> None:
    if kind == "fetch":
        host.answer(b"F", json.dumps({"kind": "refused", "message": "it was refused: a rule; a hint"}).encode())
