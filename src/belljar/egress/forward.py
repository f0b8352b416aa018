"""Plain HTTP through the proxy: one request and its response, both taken apart and put together anew, then the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import h11

from belljar.egress.heads import Head
from belljar.egress.line import Line
from belljar.egress.refusals import Refused, Unreachable
from belljar.egress.streams import Stream
from belljar.egress.tunnel import both
from belljar.egress.urls import Url

Headers = list[tuple[bytes, bytes]]

_CHUNK = 64 << 10
_TURN = 8
_HOP_BY_HOP = {
    *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
    *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
}
OWN_HEADERS = b"belljar-"  # how a denial is known; a server may not forge one
_FRAMING = {b"host", b"content-length", b"transfer-encoding"}


class Forward:
    """One request on its way to its host. `answered` says whether the guest has seen any of the response."""

    def __init__(self, guest: Stream, head: Head, url: Url, head_bytes: int) -> None:
        self.answered = False
        self._guest = guest
        self._url = url
        self._inner = h11.Connection(h11.SERVER, max_incomplete_event_size=head_bytes)
        self._outer = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * head_bytes)
        try:
            self._inner.receive_data(head.raw)
            request = self._inner.next_event()
        except h11.RemoteProtocolError as error:
            raise _malformed(url, str(error)) from None
        assert isinstance(request, h11.Request)
        self._request = request_for(request.method, url, request.headers)

    async def run(self, line: Line) -> None:
        """Send the request and hand on the response.

        Raises:
            Refused: for a malformed body, and when a cap is reached.
            Unreachable: when the host does not answer in HTTP.
            OSError: when one side breaks.
        """
        async with line.in_time():
            await line.send(self._outer.send(self._request) or b"")
            try:
                await both(self._upload(line), self._download(line))
            except _Answered:
                pass  # before the whole request was sent, as it may

    async def _upload(self, line: Line) -> None:
        turn = 0
        while True:
            try:
                event = self._inner.next_event()
                if event is h11.NEED_DATA:
                    self._inner.receive_data(await self._guest.recv(_CHUNK))
                    continue
            except h11.RemoteProtocolError as error:
                raise _malformed(self._url, str(error)) from None
            if not isinstance(event, h11.Data):
                event = h11.EndOfMessage()  # without trailers
            with contextlib.suppress(OSError):  # a host may answer and close without reading on
                await line.send(self._outer.send(event) or b"")
            if isinstance(event, h11.EndOfMessage):
                return
            turn += 1
            if turn % _TURN == 0:
                await asyncio.sleep(0)

    async def _download(self, line: Line) -> None:
        turn = 0
        while True:
            event = await next_event(self._outer, line)
            if isinstance(event, h11.Response):
                headers = [header for header in end_to_end(event.headers) if not header[0].startswith(OWN_HEADERS)]
                check_length(self._request.method, event, line)
                headers.append((b"connection", b"close"))
                event = h11.Response(status_code=event.status_code, reason=event.reason, headers=headers)
                self.answered = True
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code != 100 or not self._inner.they_are_waiting_for_100_continue:
                    continue
                event = h11.InformationalResponse(status_code=100, reason=b"Continue", headers=[])
            elif isinstance(event, h11.EndOfMessage):
                event = h11.EndOfMessage()
            await self._guest.send(self._inner.send(event) or b"")
            if isinstance(event, h11.EndOfMessage):
                raise _Answered
            turn += 1
            if turn % _TURN == 0:
                await asyncio.sleep(0)


class _Answered(Exception):
    """The response is complete; what is left of the request does not matter."""


def request_for(method: bytes, url: Url, headers: Iterable[tuple[bytes, bytes]]) -> h11.Request:
    """A request in origin form, with the host in canonical form and nothing that was meant for a proxy."""
    given = list(headers)
    chunked = any(name == b"transfer-encoding" for name, _ in given)
    kept = [(b"host", url.authority.encode("ascii")), *end_to_end(given, drop={b"host"})]
    if chunked:
        kept.append((b"transfer-encoding", b"chunked"))
    kept.append((b"connection", b"close"))
    return h11.Request(method=method, target=url.path.encode("ascii"), headers=kept)


def check_length(method: bytes, response: h11.Response, line: Line) -> None:
    """Refuse a response that announces more than may still be received."""
    if method != b"HEAD" and response.status_code not in (204, 304):
        for name, value in response.headers:
            if name == b"content-length":
                line.expects(int(value))


def end_to_end(headers: Iterable[tuple[bytes, bytes]], drop: Iterable[bytes] = ()) -> Headers:
    """Headers without those that concern one hop: the known ones, and those that `Connection` names."""
    given = [(name.lower(), value) for name, value in headers]
    named = {
        token.strip().lower() for name, value in given if name == b"connection" for token in value.split(b",")
    } - _FRAMING
    dropped = _HOP_BY_HOP | named | set(drop)
    if any(name == b"transfer-encoding" for name, _ in given):
        dropped.add(b"content-length")  # the coding wins, and both would frame the body twice
    return [(name, value) for name, value in given if name not in dropped]


async def next_event(connection: h11.Connection, line: Line) -> h11.Event:
    """The next piece of a response.

    Raises:
        Unreachable: when it is not HTTP, or ends early.
    """
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:
                raise Unreachable(f"{line.target} changed the protocol without being asked")
            connection.receive_data(await line.recv(_CHUNK))
    except h11.RemoteProtocolError as error:
        raise Unreachable(f"{line.target} did not answer in HTTP: {error}") from None


def _malformed(url: Url, reason: str) -> Refused:
    return Refused(str(url), "requests must be well-formed HTTP/1.1", reason, status=400)
