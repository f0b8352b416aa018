"""Pyodide's own ways to the network, `pyodide.http`, by way of the host instead of a browser. For WebAssembly."""

from __future__ import annotations

import builtins
import sys

from belljar_kernel.fetch import Fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from belljar_kernel.fetch import Head

MOST_REDIRECTS = 20  # as browsers do


class Xhr:
    """As much of an XMLHttpRequest as Pyodide uses, and synchronous only."""

    def __init__(self) -> None:
        self.status = 0
        self.statusText = self.responseText = self.response = self.responseURL = ""
        self._headers: list[tuple[str, str]] = []
        self._answered: list[tuple[str, str]] = []
        self._asked = ("GET", "")

    @classmethod
    def new(cls) -> Xhr:
        """How JavaScript's classes are called from Python."""
        return cls()

    def open(self, method: str, url: str, *_: object) -> None:
        """Say what is asked for."""
        self._asked = (method.upper(), str(url))

    def setRequestHeader(self, name: str, value: str) -> None:  # noqa: N802
        """One header more."""
        self._headers.append((name, value))

    def send(self, body: Any = None) -> None:
        """Make the request and wait for the whole response."""
        data = None if body is None else _encoded(body)
        fetch = Fetch(*self._asked, self._headers, None if data is None else len(data), MOST_REDIRECTS)
        try:
            fetch.now(fetch.connected())
            if data is not None:
                fetch.now(fetch.written(data, last=True))
            head = fetch.now(fetch.answered())
            self.responseText = self.response = fetch.now(fetch.whole()).decode("utf-8", "replace")
        finally:
            fetch.close()
        self.status, self.statusText, self.responseURL = head.status, head.reason, head.url
        self._answered = head.headers

    def getAllResponseHeaders(self) -> str:  # noqa: N802
        """In lines."""
        return "".join(f"{name}: {value}\r\n" for name, value in self._answered)


def patch_pyodide_http(module: Any) -> None:
    """`pyodide.http`: pyfetch, open_url and pyxhr."""

    class FetchResponse(module.FetchResponse):  # type: ignore[misc]
        """A response; its body is read when it is first asked for."""

        def __init__(self, url: str, head: Head, fetch: Fetch) -> None:
            self.js_request = self.js_response = self.abort_controller = self.abort_signal = None
            self._url, self._head, self._fetch = url, head, fetch
            self._body: builtins.bytes | None = None
            self._is_used = False

        body_used = property(lambda self: self._is_used)
        headers = property(lambda self: {name.lower(): value for name, value in self._head.headers})
        ok = property(lambda self: 200 <= self._head.status < 300)
        redirected = property(lambda self: self._head.url != self._url)
        status = property(lambda self: self._head.status)
        status_text = property(lambda self: self._head.reason)
        type = "basic"
        url = property(lambda self: self._head.url)

        def _raise_if_failed(self) -> None:
            if self._is_used:
                raise module.BodyUsedError

        def clone(self) -> FetchResponse:
            self._raise_if_failed()
            twin = FetchResponse(self._url, self._head, self._fetch)
            twin._body = self._body = self._fetch.now(self._fetch.whole()) if self._body is None else self._body
            return twin

        async def bytes(self) -> builtins.bytes:
            self._raise_if_failed()
            self._is_used = True
            return await self._fetch.later(self._fetch.whole()) if self._body is None else self._body

        async def text(self) -> str:
            return (await self.bytes()).decode("utf-8", "replace")

        async def string(self) -> str:
            return await self.text()

        async def json(self, **options: Any) -> Any:
            import json

            return json.loads(await self.text(), **options)

        async def memoryview(self) -> builtins.memoryview:
            return builtins.memoryview(await self.bytes())

        async def buffer(self) -> Any:
            to_js = sys.modules["pyodide.ffi"].to_js
            return to_js(await self.bytes()).buffer

        def abort(self, reason: Any = None) -> None:  # noqa: ARG002 -- nobody is told why
            self._fetch.close()

    async def pyfetch(request: Any, /, **options: Any) -> Any:
        """Fetch the url and return the response."""
        url = request if isinstance(request, str) else request.url
        body = options.get("body")
        data = None if body is None else _encoded(body)
        length, method = None if data is None else len(data), str(options.get("method") or "GET").upper()
        redirects = 0 if options.get("redirect", "follow") == "manual" else MOST_REDIRECTS
        fetch = Fetch(method, url, _pairs(options.get("headers")), length, redirects)
        try:
            await fetch.later(fetch.connected())
            if data is not None:
                await fetch.later(fetch.written(data, last=True))
            return FetchResponse(url, await fetch.later(fetch.answered()), fetch)
        except BaseException:
            fetch.close()
            raise

    module.FetchResponse, module.pyfetch = FetchResponse, pyfetch
    module.XMLHttpRequest = module.pyxhr.XMLHttpRequest = Xhr


def _pairs(headers: Any) -> list[tuple[str, str]]:
    if hasattr(headers, "to_py"):
        headers = headers.to_py()
    items = headers.items() if hasattr(headers, "items") else headers or ()
    return [(str(name), str(value)) for name, value in items]


def _encoded(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return bytes(body.to_bytes() if hasattr(body, "to_bytes") and not isinstance(body, int) else body)
