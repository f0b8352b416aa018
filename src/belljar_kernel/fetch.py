"""Requests that the host makes for a Python without sockets, by calls that it answers itself. For WebAssembly."""

from __future__ import annotations

import asyncio
import base64
import errno
import time

from belljar_kernel.denials import NO_HOSTS, OFF
from belljar_kernel.mail import mail
from belljar_kernel.pending import CallFailed
from belljar_kernel.protocol import FETCH_PIECE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from typing import Any, TypeVar

    from belljar_kernel.pending import Pending

    T = TypeVar("T")
    Steps = Generator[Pending, None, T]  # continues when the call that it gave is settled
    Headers = Iterable[tuple[str, str]]

UNKNOWN = -1  # the length of a body that is not known before it ends
_CLOSED = ("closed", "the response was closed")
_monotonic = time.monotonic


class Head:
    """How a response begins."""

    def __init__(self, status: int, reason: str, url: str, headers: list[list[str]]) -> None:
        self.status = status
        self.reason = reason
        self.url = url
        self.headers = [(name, value) for name, value in headers]


class Fetch:
    """One request and its response. Each step can be done `now`, which waits, or `later`, which is awaited.

    Every step is a call. The number of the first, which opens it, is the number of the fetch.
    """

    def __init__(
        self, method: str, url: str, headers: Headers = (), length: int | None = None, redirects: int = 0
    ) -> None:
        self._is_over, self._is_closed = True, False
        _check(url)
        asked = {"method": method, "url": url, "headers": [[name, value] for name, value in headers]}
        opened = mail.calls.ask("fetch.open", {**asked, "length": length, "redirects": redirects}, lasts=True)
        self._calls = {"open": opened}  # the last of each kind
        self._head: Head | None = None
        self.number = opened.number
        self._is_over = False

    @property
    def is_connected(self) -> bool:
        """Whether the host has a connection."""
        opened = self._calls["open"]
        return opened.is_settled and opened.failure is None

    def now(self, steps: Steps[T], seconds: float | None = None) -> T:
        """Take steps, and wait here for what they need.

        Raises:
            TimeoutError: when a wait takes longer than that.
        """
        end = None if seconds is None else _monotonic() + seconds
        while True:
            try:
                call = next(steps)
            except StopIteration as done:
                value: T = done.value
                return value
            try:
                call.wait(None if end is None else end - _monotonic())
            except TimeoutError:
                raise TimeoutError(errno.ETIMEDOUT, "timed out") from None

    async def later(self, steps: Steps[T], seconds: float | None = None) -> T:
        """As `now`, for coroutines: others go on meanwhile."""
        end = None if seconds is None else _monotonic() + seconds
        while True:
            try:
                call = next(steps)
            except StopIteration as done:
                value: T = done.value
                return value
            await asyncio.wait_for(call.arrive(), None if end is None else max(0.0, end - _monotonic()))

    def connected(self) -> Steps[None]:
        """Until the host has a connection."""
        yield from self._answer(self._calls["open"])

    def written(self, data: Any, last: bool = False) -> Steps[None]:
        """Send more of the body, no faster than the host sends it on."""
        view = memoryview(data).cast("B")
        while True:
            before = self._calls.get("write")
            if before is not None and not (yield from self._answer(before))["more"]:
                return  # the answer is there before the end of the body: reading tells
            piece, view = view[:FETCH_PIECE_BYTES], view[FETCH_PIECE_BYTES:]
            is_last = last and not view
            if piece or is_last:
                self._ask("write", data=base64.b64encode(piece).decode("ascii"), last=is_last)
            if not view:
                return

    def answered(self) -> Steps[Head]:
        """Until the head of the response is there."""
        if self._head is None:
            facts = yield from self._answer(self._calls.get("head") or self._ask("head"))
            self._head = Head(**facts)
        return self._head

    def read(self) -> Steps[bytes]:
        """The next piece of the body; nothing at its end. The one after it is asked for already."""
        if self._is_over and not self._is_closed:
            return b""
        piece = None
        while piece is None:
            call = self._calls.get("read") or self._ask("read")
            value = yield from self._answer(call)
            if self._calls.get("read") is call:  # no other coroutine has taken it meanwhile
                piece = value
        del self._calls["read"]
        self._is_over = piece["end"]
        if not self._is_over:
            self._ask("read")
        data: bytes = piece["data"]
        return data

    def whole(self) -> Steps[bytes]:
        """The rest of the body."""
        pieces = []
        while piece := (yield from self.read()):
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Leave it, wherever it is."""
        if not self._is_over:
            self._is_over = self._is_closed = True
            for call in self._calls.values():
                call.settle(failure=_CLOSED)
                call.leave()
            mail.calls.ask("fetch.close", {"fetch": self.number}, lasts=True).leave()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass  # the interpreter is at its end, or the fetch never began

    def _ask(self, step: str, **fields: Any) -> Pending:
        if self._is_closed:
            raise ConnectionError(_CLOSED[1])
        call = self._calls[step] = mail.calls.ask(f"fetch.{step}", {"fetch": self.number, **fields}, lasts=True)
        return call

    def _answer(self, call: Pending) -> Steps[Any]:
        while not call.is_settled:
            yield call
        try:
            return call.value()
        except CallFailed as failed:
            name, message = failed.name, failed.text
        if name == "refused":
            raise ConnectionRefusedError(errno.ECONNREFUSED, message)
        if name == "untrusted":
            import ssl

            raise ssl.SSLCertVerificationError(1, message)
        raise ConnectionError(message)


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
