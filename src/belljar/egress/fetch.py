"""Requests made for a guest that has no sockets: the host speaks HTTP and TLS itself, and checks every hop."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from urllib.parse import urljoin

import h11

from belljar.egress.forward import OWN_HEADERS, check_length, end_to_end, next_event, request_for
from belljar.egress.gate import Gate
from belljar.egress.line import Line
from belljar.egress.refusals import Refused, Unreachable
from belljar.egress.urls import Url, parse_url

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
Body = bytes | AsyncIterable[bytes] | None

_REDIRECTS = {301, 302, 303, 307, 308}
_SECRETS = {b"authorization", b"cookie", b"proxy-authorization"}
_OF_A_BODY = {b"content-length", b"content-type", b"content-encoding", b"transfer-encoding"}
_OURS = {b"host", b"content-length", b"transfer-encoding", b"expect"}


class Response:
    """A response whose body is still to come. It holds a connection until it is read to the end or closed."""

    def __init__(self, url: Url, head: h11.Response, connection: h11.Connection, line: Line, gate: Gate) -> None:
        self.url = str(url)
        self.status = head.status_code
        self.reason = head.reason.decode("latin-1")
        kept = [header for header in end_to_end(head.headers) if not header[0].startswith(OWN_HEADERS)]
        self.headers = [(name.decode("ascii"), value.decode("latin-1")) for name, value in kept]
        self._connection = connection
        self._line = line
        self._gate = gate
        self._open = True

    def header(self, name: str) -> str | None:
        """The first header of that name, in lower case."""
        return next((value for found, value in self.headers if found == name), None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body in pieces, as they come and only as fast as they are taken.

        Raises:
            Refused: when a cap is reached.
            Unreachable: when the body ends early.
        """
        try:
            while self._open:
                async with self._line.in_time():
                    event = await next_event(self._connection, self._line)
                if isinstance(event, h11.EndOfMessage):
                    break
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
        except Refused as refused:
            self._gate.report(refused)
            raise
        except OSError as error:
            raise Unreachable(f"{self._line.target} broke the connection: {error}") from None
        finally:
            await self.close()

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self])

    async def close(self) -> None:
        """Give the connection back."""
        self._open = False
        self._line.close()

    async def __aenter__(self) -> Response:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def fetch(
    gate: Gate,
    tls: ssl.SSLContext,
    method: str,
    url: str,
    headers: Headers,
    body: Body,
    redirects: int,
    length: int | None = None,
    on_connect: Callable[[], None] | None = None,
) -> Response:
    """One request, and as many redirects as the caller allows; see `Egress.fetch`."""
    try:
        target = parse_url(url)
        given = _headers(headers, target)
        for left in range(redirects, -1, -1):
            response = await _exchange(gate, tls, method, target, given, body, length, on_connect)
            location = response.header("location")
            if redirects == 0 or response.status not in _REDIRECTS or location is None:
                return response
            await response.close()
            if left == 0:
                raise Refused(str(target), f"at most {redirects} redirects are followed", "ask for the last one itself")
            target, method, given, body = _next_hop(response.status, target, location, method, given, body)
    except Refused as refused:
        gate.report(refused)
        raise
    raise AssertionError("a loop that always returns or raises")


def _next_hop(
    status: int, url: Url, location: str, method: str, headers: list[tuple[bytes, bytes]], body: Body
) -> tuple[Url, str, list[tuple[bytes, bytes]], Body]:
    target = parse_url(urljoin(str(url), location))
    drop: set[bytes] = set()
    if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
        drop |= _SECRETS
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        drop |= _OF_A_BODY
    if body is not None and not isinstance(body, bytes):
        raise Refused(str(target), "a body that streams is sent once", "follow this redirect with a new body")
    return target, method, [(name, value) for name, value in headers if name not in drop], body


async def _exchange(
    gate: Gate,
    tls: ssl.SSLContext,
    method: str,
    url: Url,
    headers: list[tuple[bytes, bytes]],
    body: Body,
    length: int | None,
    on_connect: Callable[[], None] | None,
) -> Response:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * gate.caps.head_bytes)
    request = _request(method, url, headers, body, length)
    gate.enter(str(url))
    try:
        line = await gate.connect(url.host, url.port, "fetch", tls if url.scheme == "https" else None)
    except BaseException:
        gate.leave()
        raise
    try:
        if on_connect is not None:
            on_connect()
        async with line.in_time():
            await _send(connection, request, body, line)
            event = await next_event(connection, line)
            while not isinstance(event, h11.Response):
                event = await next_event(connection, line)
            check_length(request.method, event, line)
    except BaseException as error:
        line.close(broken=True)
        if isinstance(error, OSError):
            raise Unreachable(f"{line.target} broke the connection: {error}") from None
        if isinstance(error, h11.LocalProtocolError):
            raise _malformed(url, str(error)) from None  # a body of another length than was said
        raise
    return Response(url, event, connection, line, gate)


async def _send(connection: h11.Connection, request: h11.Request, body: Body, line: Line) -> None:
    await line.send(connection.send(request) or b"")
    try:
        if isinstance(body, bytes):
            await line.send(connection.send(h11.Data(data=body)) or b"")
        elif body is not None:
            async for piece in body:
                await line.send(connection.send(h11.Data(data=piece)) or b"")
        await line.send(connection.send(h11.EndOfMessage()) or b"")
    except OSError:
        pass  # a host may answer and close without reading everything; if it did not, reading tells


def _headers(headers: Headers, url: Url) -> list[tuple[bytes, bytes]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        given = [(name.lower().encode("ascii"), value.strip().encode("latin-1")) for name, value in pairs]
    except UnicodeEncodeError:
        raise _malformed(url, "a header has characters that no header has") from None
    if not any(name == b"accept-encoding" for name, _ in given):
        given.append((b"accept-encoding", b"identity"))  # the body is handed on as it comes
    return [(name, value) for name, value in given if name not in _OURS]


def _request(method: str, url: Url, headers: list[tuple[bytes, bytes]], body: Body, length: int | None) -> h11.Request:
    framing: list[tuple[bytes, bytes]] = []
    if isinstance(body, bytes):
        length = len(body)
    if body is not None and length is not None:
        framing = [(b"content-length", str(length).encode())]
    elif body is not None:
        framing = [(b"transfer-encoding", b"chunked")]
    if method.upper() in ("CONNECT", "TRACE"):
        raise _malformed(url, f"{method} cannot be fetched")
    try:
        return request_for(method.encode("ascii"), url, [*headers, *framing])
    except (h11.LocalProtocolError, UnicodeEncodeError) as error:
        raise _malformed(url, str(error)) from None


def _malformed(url: Url, reason: str) -> Refused:
    return Refused(str(url), "requests must be well-formed HTTP/1.1", reason, status=400)
