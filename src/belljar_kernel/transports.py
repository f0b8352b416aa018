"""Has the HTTP clients of the code ask the host, where there are no sockets. Imports none of them. For WebAssembly."""

from __future__ import annotations

import sys

from belljar_kernel.fetch import UNKNOWN, Fetch
from belljar_kernel.wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any, NoReturn


def patch_http_client(module: Any) -> None:
    """`http.client`, and with it urllib and all that is built on them."""

    def connect(scheme: str) -> Callable[[Any], None]:
        def connect(self: Any) -> None:
            self.sock = Wire(scheme, self.host, self.port, self.timeout)
            if self._tunnel_host:
                self._tunnel()

        return connect

    module.HTTPConnection.connect = connect("http")
    if hasattr(module, "HTTPSConnection"):
        module.HTTPSConnection.connect = connect("https")


def keep_urllib3(module: Any) -> None:
    """urllib3 has classes of its own for browsers; ours stay."""
    module.inject_into_urllib3 = lambda: None


def patch_urllib3(module: Any) -> None:
    """`urllib3.connection`, and with it requests: failures have the classes that they have elsewhere."""

    def connect(scheme: str) -> Callable[[Any], None]:
        def connect(self: Any) -> None:
            self.sock = Wire(scheme, self.host, self.port, self.timeout)
            self.is_verified = scheme == "https"
            if self._tunnel_host:
                self._tunnel()

        return connect

    plain_send = module.HTTPConnection.send

    def send(self: Any, data: Any) -> None:
        try:
            plain_send(self, data)
        except OSError as failure:
            if (self.sock is not None and self.sock.is_connected) or isinstance(failure, module.BaseSSLError):
                raise
            if isinstance(failure, TimeoutError):
                words = f"Connection to {self.host} timed out. (connect timeout={self.timeout})"
                raise module.ConnectTimeoutError(self, words) from failure
            raise module.NewConnectionError(self, f"Failed to establish a new connection: {failure}") from failure

    module.HTTPConnection.send = send
    module.HTTPConnection.connect = connect("http")
    module.HTTPSConnection.connect = connect("https")
    module.wait_for_read = lambda *_, **__: False  # a connection that is kept has nothing to say


def patch_httpx(module: Any) -> None:
    """httpx's transports for browsers: they stay in place, and ask us."""
    errors: Any = sys.modules["httpx._exceptions"]

    class Body(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, fetch: Fetch, seconds: float | None) -> None:
            self._fetch, self._seconds = fetch, seconds

        def __iter__(self) -> Iterator[bytes]:
            while piece := self._next():
                yield piece

        def _next(self) -> bytes:
            try:
                return self._fetch.now(self._fetch.read(), self._seconds)
            except OSError as failure:
                translate(failure, errors.ReadTimeout, errors.ReadError)

        def close(self) -> None:
            self._fetch.close()

    class AwaitedBody(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, fetch: Fetch, seconds: float | None) -> None:
            self._fetch, self._seconds = fetch, seconds

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while piece := await self._next():
                yield piece

        async def _next(self) -> bytes:
            try:
                return await self._fetch.later(self._fetch.read(), self._seconds)
            except OSError as failure:
                translate(failure, errors.ReadTimeout, errors.ReadError)

        async def aclose(self) -> None:
            self._fetch.close()

    def translate(failure: OSError, timeout: Any, error: Any) -> NoReturn:
        raise (timeout if isinstance(failure, TimeoutError) else error)(str(failure)) from failure

    def begin(request: Any) -> tuple[Fetch, dict[str, float | None]]:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        try:
            fetch = Fetch(request.method, str(request.url), headers, _body_length(headers))
        except OSError as failure:
            translate(failure, errors.ConnectTimeout, errors.ConnectError)
        return fetch, request.extensions.get("timeout") or {}

    def response(head: Any, body: object) -> Any:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
        extensions = {"http_version": b"HTTP/1.1", "reason_phrase": head.reason.encode("latin-1")}
        return module.Response(head.status, headers=headers, stream=body, extensions=extensions)

    def handle_request(_: object, request: Any) -> Any:
        fetch, seconds = begin(request)
        stages = errors.ConnectTimeout, errors.ConnectError
        try:
            fetch.now(fetch.connected(), seconds.get("connect"))
            stages = errors.WriteTimeout, errors.WriteError
            if _body_length(request.headers.items()) is not None:
                for piece in request.stream:
                    fetch.now(fetch.written(piece), seconds.get("write"))
                fetch.now(fetch.written(b"", last=True), seconds.get("write"))
            stages = errors.ReadTimeout, errors.ReadError
            head = fetch.now(fetch.answered(), seconds.get("read"))
        except BaseException as failure:
            fetch.close()
            if isinstance(failure, OSError):
                translate(failure, *stages)
            raise
        return response(head, Body(fetch, seconds.get("read")))

    async def handle_async_request(_: object, request: Any) -> Any:
        fetch, seconds = begin(request)
        stages = errors.ConnectTimeout, errors.ConnectError
        try:
            await fetch.later(fetch.connected(), seconds.get("connect"))
            stages = errors.WriteTimeout, errors.WriteError
            if _body_length(request.headers.items()) is not None:
                async for piece in request.stream:
                    await fetch.later(fetch.written(piece), seconds.get("write"))
                await fetch.later(fetch.written(b"", last=True), seconds.get("write"))
            stages = errors.ReadTimeout, errors.ReadError
            head = await fetch.later(fetch.answered(), seconds.get("read"))
        except BaseException as failure:
            fetch.close()
            if isinstance(failure, OSError):
                translate(failure, *stages)
            raise
        return response(head, AwaitedBody(fetch, seconds.get("read")))

    module.JavascriptFetchTransport.handle_request = handle_request
    module.AsyncJavascriptFetchTransport.handle_async_request = handle_async_request


def _body_length(headers: Any) -> int | None:
    """Of a request's body, by its headers; None when there is none."""
    fields = {name.lower(): value for name, value in headers}
    if "chunked" in fields.get("transfer-encoding", "").lower():
        return UNKNOWN
    return int(fields["content-length"]) if "content-length" in fields else None
