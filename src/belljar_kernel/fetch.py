"""Requests that the host makes for a Python without sockets: sent as Events, answered by mail. For WebAssembly."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import time
from collections import deque

from belljar_kernel import waiting
from belljar_kernel.denials import NO_HOSTS, OFF
from belljar_kernel.mail import mail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from typing import Any, TypeVar

    T = TypeVar("T")
    Steps = Generator[None, None, T]  # goes on whenever there was mail
    Headers = Iterable[tuple[str, str]]

PIECE_BYTES = 128 << 10
WINDOW_BYTES = 512 << 10  # of a body on its way, in either direction
LEAST_BYTES = 1 << 10  # that a piece counts for, however small it is
UNKNOWN = -1  # the length of a body that is not known before it ends
_monotonic = time.monotonic


class Head:
    """How a response begins."""

    def __init__(self, status: int, reason: str, url: str, headers: list[list[str]]) -> None:
        self.status = status
        self.reason = reason
        self.url = url
        self.headers = [(name, value) for name, value in headers]


class Fetch:
    """One request and its response. Each step can be done `now`, which waits, or `later`, which is awaited."""

    def __init__(
        self, method: str, url: str, headers: Headers = (), length: int | None = None, redirects: int = 0
    ) -> None:
        _check(url)
        self.is_connected = False
        self._head: Head | None = None
        self._pieces: deque[bytes] = deque()
        self._is_over = False
        self._is_closed = False
        self._failure: tuple[str, str] | None = None
        self._may_send = WINDOW_BYTES
        self._to_tell = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self.number = mail.register(self)
        asked = {"method": method, "url": url, "headers": [[name, value] for name, value in headers]}
        self._tell("fetch", {**asked, "length": length, "redirects": redirects})

    def now(self, steps: Steps[T], seconds: float | None = None) -> T:
        """Take steps, and wait here for what they need.

        Raises:
            TimeoutError: when a wait takes longer than that.
        """
        end = None if seconds is None else _monotonic() + seconds
        while True:
            try:
                next(steps)
            except StopIteration as done:
                value: T = done.value
                return value
            if mail.deliver():
                continue
            left = waiting.LONGEST_S if end is None else end - _monotonic()
            if left <= 0:
                raise TimeoutError(errno.ETIMEDOUT, "timed out")
            waiting.wait_for_message(left)

    async def later(self, steps: Steps[T], seconds: float | None = None) -> T:
        """The same for coroutines: others go on meanwhile."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while True:
            try:
                next(steps)
            except StopIteration as done:
                value: T = done.value
                return value
            arrival = loop.create_future()
            self._waiting.add(arrival)
            mail.awaited += 1
            try:
                await asyncio.wait_for(arrival, None if end is None else max(0.0, end - loop.time()))
            finally:
                mail.awaited -= 1
                self._waiting.discard(arrival)

    def connected(self) -> Steps[None]:
        """Until the host has a connection."""
        while not (self.is_connected or self._head or self._failure):
            yield
        if self._head is None:
            self._raise_failure()

    def written(self, data: Any, last: bool = False) -> Steps[None]:
        """Send more of the body, no faster than it goes on from the host."""
        view = memoryview(data).cast("B")
        while True:
            piece, view = view[:PIECE_BYTES], view[PIECE_BYTES:]
            while self._may_send < max(len(piece), LEAST_BYTES) and not (self._head or self._failure):
                yield
            if self._head or self._failure:
                return  # the answer is there before the end of the body: reading tells
            is_last = last and not view
            if piece or is_last:
                self._may_send -= max(len(piece), LEAST_BYTES)
                self._tell("fetch_body", {"data": base64.b64encode(piece).decode("ascii"), "last": is_last})
            if not view:
                return

    def answered(self) -> Steps[Head]:
        """Until the head of the response is there."""
        while self._head is None:
            self._raise_failure()
            yield
        return self._head

    def read(self) -> Steps[bytes]:
        """The next piece of the body; nothing at its end."""
        while not self._pieces:
            self._raise_failure()
            if self._is_over:
                return b""
            yield
        piece = self._pieces.popleft()
        self._to_tell += max(len(piece), LEAST_BYTES)
        if self._to_tell >= WINDOW_BYTES // 2 and not self._is_over:
            self._tell("fetch_taken", {"count": self._to_tell})
            self._to_tell = 0
        return piece

    def whole(self) -> Steps[bytes]:
        """The rest of the body."""
        pieces = []
        while piece := (yield from self.read()):
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Leave it, wherever it is."""
        if not self._is_closed:
            self._is_closed = True
            if not self._is_over:
                self._is_over, self._failure = True, ("closed", "the response was closed")
                self._tell("fetch_close", {})
            self._wake()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass  # the interpreter is at its end, or the fetch never began

    def take(self, kind: bytes, data: bytes) -> None:
        """One message about it."""
        if self._is_closed:
            return
        if kind == b"C":
            self.is_connected = True
        elif kind == b"H":
            self._head = Head(**json.loads(data))
        elif kind == b"D":
            self._pieces.append(data)
        elif kind == b"T":
            self._may_send += int.from_bytes(data, "big")
        elif kind == b"E":
            self._is_over = True
        elif kind == b"F":
            told = json.loads(data)
            self._is_over, self._failure = True, (told["kind"], told["message"])
        self._wake()

    def _wake(self) -> None:
        for arrival in self._waiting:
            if not arrival.done():
                arrival.set_result(None)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            kind, message = self._failure
            if kind == "refused":
                raise ConnectionRefusedError(errno.ECONNREFUSED, message)
            if kind == "untrusted":
                import ssl

                raise ssl.SSLCertVerificationError(1, message)
            raise ConnectionError(message)

    def _tell(self, type: str, fields: dict[str, Any]) -> None:
        mail.send(type, {"fetch": self.number, **fields})


def _check(url: str) -> None:
    """What is off altogether is not asked for."""
    if not mail.denials.hosts:
        from urllib.parse import urlsplit

        try:
            split = urlsplit(url)
            port = split.port or {"http": 80, "https": 443}.get(split.scheme)
            target = f"{split.hostname}:{port}" if split.hostname else url
        except ValueError:
            target = url
        raise ConnectionRefusedError(errno.ECONNREFUSED, mail.denials.tell(target, OFF, NO_HOSTS))
