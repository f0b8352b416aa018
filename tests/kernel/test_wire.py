"""What stands in for a socket where there is none: bytes of requests in, calls out; replies in, bytes of responses out."""

from __future__ import annotations

import base64
import http.client
from typing import Any

import pytest

from belljar_kernel import fetch
from belljar_kernel.calls import Calls
from belljar_kernel.fetch import Fetch
from belljar_kernel.interrupts import Interrupts
from belljar_kernel.mail import Mail
from belljar_kernel.protocol import FETCH_PIECE_BYTES
from belljar_kernel.wire import Wire

Outcome = dict[str, Any] | tuple[str, str]  # a value, or the name and text of an error


class Host:
    """Replies to the steps of fetches as a test says, each as soon as it is known; it is the post, too."""

    reads_in_thread = False

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.pieces: list[tuple[bytes, bool]] = []
        self.outcomes: dict[str, Outcome] = {"open": {}, "write": {"more": True}}
        self._asked: list[tuple[str, int]] = []

    def send(self, _: str, call: dict[str, Any]) -> None:
        step = call["name"].removeprefix("fetch.")
        self.sent.append((step, call["args"]))
        self._asked.append((step, call["call_id"]))

    def respond(self, body: bytes = b"", status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.outcomes["head"] = {"status": status, "reason": "OK", "url": "", "headers": [*(headers or {}).items()]}
        self.pieces += [(body, True)]

    def take(self) -> list[dict[str, Any]]:
        replies, waiting = [], []
        for step, number in self._asked:
            outcome = self._outcome(step)
            if outcome is None:
                waiting.append((step, number))
            elif isinstance(outcome, tuple):
                replies.append({"call_id": number, "error": {"name": outcome[0], "value": outcome[1]}})
            else:
                replies.append({"call_id": number, "value": outcome})
        self._asked = waiting
        return replies

    def wait(self, seconds: float) -> None:
        assert seconds < 60, f"no reply will ever come to {self._asked}"

    def get_ready(self) -> None:
        """Nothing to do."""

    wake = rest = get_ready

    def asked(self) -> dict[str, Any]:
        return next(args for step, args in reversed(self.sent) if step == "open")

    def body(self) -> list[tuple[bytes, bool]]:
        return [(base64.b64decode(args["data"]), args["last"]) for step, args in self.sent if step == "write"]

    def _outcome(self, step: str) -> Outcome | None:
        if step == "read" and self.pieces:
            data, is_end = self.pieces.pop(0)
            return {"data": data, "end": is_end}
        return self.outcomes.get(step)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    fresh = Mail()
    fresh.calls = Calls(made.send, Interrupts())
    fresh.calls.connect(made)
    fresh.denials.hosts = ["example.test"]
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
    connection.request("GET", "/again")  # on this connection, again
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
    connection.request("POST", "/", body=b"x" * (FETCH_PIECE_BYTES + 1))
    assert host.asked()["length"] == FETCH_PIECE_BYTES + 1
    assert [(len(data), last) for data, last in host.body()] == [(FETCH_PIECE_BYTES, False), (1, True)]


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
    made = Fetch("POST", "http://example.test/", (), 10 * FETCH_PIECE_BYTES)
    del host.outcomes["write"]
    steps = made.written(b"x" * (3 * FETCH_PIECE_BYTES))
    next(steps)
    assert sum(len(data) for data, _ in host.body()) == FETCH_PIECE_BYTES
    host.outcomes["write"] = {"more": True}
    fetch.mail.calls.deliver()
    next(steps)
    assert sum(len(data) for data, _ in host.body()) == 2 * FETCH_PIECE_BYTES
    host.outcomes["write"] = {"more": False}
    fetch.mail.calls.deliver()
    assert list(steps) == []
    assert sum(len(data) for data, _ in host.body()) == 2 * FETCH_PIECE_BYTES
    assert list(made.written(b"y", last=True)) == []


def test_the_next_piece_is_asked_for_while_one_is_read_and_no_more_after_the_end(host: Host):
    made = Fetch("GET", "http://example.test/")
    host.pieces = [(b"one", False), (b"two", False), (b"three", True)]
    assert made.now(made.read()) == b"one"
    assert [step for step, _ in host.sent] == ["open", "read", "read"]
    assert [made.now(made.read()) for _ in range(3)] == [b"two", b"three", b""]
    assert [step for step, _ in host.sent] == ["open", "read", "read", "read"]


def test_tunnels_are_refused_and_addresses_have_brackets(host: Host):
    with pytest.raises(OSError, match="proxies cannot be used"):
        Wire("http", "proxy.test", 3128).sendall(b"CONNECT example.test:443 HTTP/1.0\r\n\r\n")
    Wire("https", "::1", 8443).sendall(b"GET /x HTTP/1.1\r\n\r\n")
    assert host.asked()["url"] == "https://[::1]:8443/x"
    Wire("http", "proxy.test", 3128).sendall(b"GET http://example.test/y HTTP/1.1\r\n\r\n")
    assert host.asked()["url"] == "http://example.test/y"


def test_a_refusal_comes_with_the_request_and_a_break_with_the_body(host: Host):
    host.outcomes["open"] = ("refused", "it was refused: a rule; a hint")
    connection = wired()
    with pytest.raises(ConnectionRefusedError, match="was refused: a rule"):
        connection.request("GET", "/")
    host.outcomes["open"] = {}
    connection = wired()
    connection.request("GET", "/")
    host.outcomes["head"] = {"status": 200, "reason": "", "url": "", "headers": [["content-length", "9"]]}
    host.pieces = [(b"hel", False)]
    host.outcomes["read"] = ("unreachable", "it broke")
    response = connection.getresponse()
    assert response.read(3) == b"hel"
    with pytest.raises(ConnectionError, match="it broke"):
        response.read()


def test_a_wait_that_takes_too_long_loses_nothing_and_what_nobody_has_is_closed(host: Host):
    made = Fetch("GET", "http://example.test/")
    for steps in (made.answered, made.read):
        with pytest.raises(TimeoutError):
            made.now(steps(), 0.01)
    host.respond(b"late")
    assert (made.now(made.answered()).status, made.now(made.read())) == (200, b"late")
    left = Fetch("GET", "http://example.test/")
    number = left.number
    del left
    assert host.sent[-1] == ("close", {"fetch": number})


def test_what_was_closed_cannot_be_read_on(host: Host):
    made = Fetch("GET", "http://example.test/")
    host.pieces = [(b"one", False)]
    assert made.now(made.read()) == b"one"
    made.close()
    for steps in (made.read, made.answered):
        with pytest.raises(ConnectionError, match="was closed"):
            made.now(steps())
