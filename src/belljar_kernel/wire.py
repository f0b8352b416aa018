"""What `http.client` takes for a socket: the request that is written to it is made by the host. For WebAssembly."""

from __future__ import annotations

import io
import socket

from belljar_kernel.fetch import UNKNOWN, Fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_HEAD = 1 << 20
_HEAD_END = b"\r\n\r\n"


class Wire:
    """One connection, as many requests as one likes, one after the other."""

    def __init__(self, scheme: str, host: str, port: int, timeout: object = None) -> None:
        self._origin = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        self._peer = (host, port)
        self._timeout = timeout if isinstance(timeout, int | float) else socket.getdefaulttimeout()
        self._buffer = b""
        self._fetch: Fetch | None = None
        self._left: int | None = None  # of the body
        self._is_chunked = False
        self._is_handed_over = False

    @property
    def is_connected(self) -> bool:
        """Whether somebody answered at the other end."""
        return self._fetch is not None and self._fetch.is_connected

    def sendall(self, data: Any) -> None:
        """Bytes of a request: the head, then the body."""
        if self._left is None:
            self._buffer += bytes(data)
            if _HEAD_END not in self._buffer:
                if len(self._buffer) > LONGEST_HEAD:
                    raise OSError("the head of a request has no end")
                return
            head, _, rest = self._buffer.partition(_HEAD_END)
            self._buffer = b""
            self._begin(head)
            data = rest
        self._send_body(data)

    def makefile(self, mode: str = "r", *_: object, **__: object) -> io.BufferedReader:
        """The response, as bytes."""
        if self._fetch is None or mode != "rb":
            raise OSError("there is no response before a request")
        self._is_handed_over = True
        return io.BufferedReader(_Response(self._fetch, self))

    def close(self) -> None:
        """No more requests; a response that is being read goes on."""
        if self._fetch is not None and not self._is_handed_over:
            self._fetch.close()
        self._fetch = None

    def settimeout(self, seconds: float | None) -> None:
        """How long each wait may take."""
        self._timeout = seconds

    def gettimeout(self) -> float | None:
        """How long each wait may take."""
        return self._timeout

    def setsockopt(self, *_: object) -> None:
        """There is nothing to set."""

    def shutdown(self, _: int) -> None:
        """End it in both directions."""
        if self._fetch is not None:
            self._fetch.close()

    def getpeername(self) -> tuple[str, int]:
        """Whom it leads to."""
        return self._peer

    def fileno(self) -> int:
        """There is no descriptor."""
        return -1

    def _begin(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        if method == "CONNECT":
            raise OSError("proxies cannot be used in this sandbox: the host reaches what Policy.network allows")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        fields = {name.lower(): value for name, value in headers}
        self._is_chunked = "chunked" in fields.get("transfer-encoding", "").lower()
        length = UNKNOWN if self._is_chunked else int(fields["content-length"]) if "content-length" in fields else None
        self._is_handed_over = False
        url = self._origin + target if target.startswith("/") else target
        self._fetch = fetch = Fetch(method, url, headers, length)
        self._left = length or 0
        try:
            fetch.now(fetch.connected(), self._timeout)
        except BaseException:
            fetch.close()
            raise
        if length == 0:
            fetch.now(fetch.written(b"", last=True), self._timeout)
        if not length:
            self._left = None

    def _send_body(self, data: Any) -> None:
        fetch = self._fetch
        if self._left is None or fetch is None:
            return
        if self._is_chunked:
            self._buffer += bytes(data)
            data, is_last = self._unchunked()
        else:
            view = memoryview(data).cast("B")
            self._left -= len(view)
            data, is_last = view, self._left <= 0
        if len(data) or is_last:
            fetch.now(fetch.written(data, is_last), self._timeout)
        if is_last:
            self._left, self._buffer = None, b""

    def _unchunked(self) -> tuple[bytes, bool]:
        """The whole chunks that are there, and whether one was the last."""
        whole: list[bytes] = []
        while b"\r\n" in self._buffer:
            size, _, rest = self._buffer.partition(b"\r\n")
            length = int(size.partition(b";")[0], 16)
            if len(rest) < length + 2:
                break
            if length == 0:
                return b"".join(whole), True
            whole.append(rest[:length])
            self._buffer = rest[length + 2 :]
        return b"".join(whole), False


class _Response(io.RawIOBase):
    """A response in HTTP/1.1, whose body ends with its length or with the connection."""

    def __init__(self, fetch: Fetch, wire: Wire) -> None:
        super().__init__()
        self._fetch = fetch
        self._wire = wire
        self._rest = memoryview(b"")
        self._has_head = False

    def readable(self) -> bool:
        """It is all for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes; none at the end."""
        if not self._rest:
            self._rest = memoryview(self._next())
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Leave what was not read."""
        self._fetch.close()
        super().close()

    def _next(self) -> bytes:
        seconds = self._wire.gettimeout()
        if self._has_head:
            return self._fetch.now(self._fetch.read(), seconds)
        head = self._fetch.now(self._fetch.answered(), seconds)
        self._has_head = True
        lines = [f"HTTP/1.1 {head.status} {head.reason}", *(f"{name}: {value}" for name, value in head.headers)]
        if not any(name == "content-length" for name, _ in head.headers):
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
