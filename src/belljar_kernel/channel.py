"""Frames over one descriptor: four bytes of length, then JSON. Requests and replies come in, Events go out."""

from __future__ import annotations

import os
import select
from _thread import get_ident
from collections import deque

from belljar_kernel import codec
from belljar_kernel.protocol import FRAME_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELD_BYTES = 64 * 1024
SMALL_READ = 4096  # most Requests are read at once
_LARGE_READ = 1 << 20
_read, _write, _exit, _getpid = os.read, os.write, os._exit, os.getpid
_poll, _READABLE = select.poll, select.POLLIN
_len, _memoryview, _bytes, _bytearray, _min, _max = len, memoryview, bytes, bytearray, min, max
_from_bytes = int.from_bytes
_NONE = object()


class Channel:
    """The kernel's end. The main thread receives Requests between runs; while a run is on, its calls take replies."""

    reads_in_thread = True

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pid = _getpid()
        self._held = b""
        self._rest = bytearray()  # read, and not a whole frame yet
        self._requests: deque[Any] = deque()  # that came while replies were waited for
        self._main = get_ident()
        self._alarm: tuple[int, int] | None = None  # a pipe that ends the wait of another thread

    def receive(self) -> Any:
        """The next Request, or None at the end. A frame that is not JSON is given as the string it cannot be."""
        while True:
            if self._requests:
                return self._requests.popleft()
            while (document := self._next()) is _NONE:
                if not self._fill():
                    return None
            if not _is_reply(document):  # a reply that comes now was for a run that has ended
                return document

    def take(self) -> list[dict[str, Any]]:
        """The replies that have come whole; never blocks.

        Raises:
            ConnectionError: when the host has gone away.
        """
        replies = []
        while True:
            while (document := self._next()) is not _NONE:
                if _is_reply(document):
                    replies.append(document)
                else:
                    self._requests.append(document)
            if not self._has_more():
                return replies
            if not self._fill():
                raise ConnectionError("the host has gone away")

    def get_ready(self) -> None:
        """Make what ends the wait of a thread; the main thread needs none, as it is the one that ends waits."""
        if self._alarm is None and get_ident() != self._main:
            self._alarm = os.pipe()

    def wait(self, seconds: float) -> None:
        """Block until there is something to read, or another thread wakes us, or for so long."""
        poll = _poll()
        poll.register(self._fd, _READABLE)
        if self._alarm is not None:
            poll.register(self._alarm[0], _READABLE)
        poll.poll(seconds * 1000)

    def wake(self) -> None:
        """End the wait of another thread."""
        if self._alarm is not None:
            _write(self._alarm[1], b"!")

    def rest(self) -> None:
        """Let go of what ends waits."""
        alarm, self._alarm = self._alarm, None
        for end in alarm or ():
            os.close(end)

    def send(self, document: dict[str, Any]) -> None:
        """Write one frame, whole. A run's value waits for the `done` that follows it at once, to wake the host once.

        Raises:
            ValueError, TypeError: when the document is not plain JSON data, or too large for a frame.
            OSError: when the host reads no more.
        """
        if _getpid() != self._pid:
            _exit(1)
        body = codec.encode(document)
        if _len(body) > FRAME_BYTES:
            raise ValueError("too large for a frame")
        frames = self._held + _len(body).to_bytes(4, "big") + body
        self._held = b""
        if document.get("main") is True and _len(frames) < HELD_BYTES:
            self._held = frames
            return
        rest = _memoryview(frames)
        while rest:
            rest = rest[_write(self._fd, rest) :]

    def _next(self) -> Any:
        """The next document that was read whole."""
        rest = self._rest
        if _len(rest) < 4:
            return _NONE
        end = 4 + _from_bytes(rest[:4], "big")  # from the host: whatever it sends is meant
        if _len(rest) < end:
            return _NONE
        frame = _bytes(rest[4:end])
        if _len(rest) == end:
            self._rest = _bytearray()
        else:
            del rest[:end]
        try:
            return codec.decode(frame)
        except (ValueError, RecursionError):
            return "not JSON"

    def _fill(self) -> bool:
        """Read once; False at the end."""
        rest = self._rest
        missing = 4 + _from_bytes(rest[:4], "big") - _len(rest) if _len(rest) >= 4 else 0
        chunk = _read(self._fd, _min(_max(missing, SMALL_READ), _LARGE_READ))
        rest += chunk
        return bool(chunk)

    def _has_more(self) -> bool:
        poll = _poll()
        poll.register(self._fd, _READABLE)
        return bool(poll.poll(0))


def _is_reply(document: Any) -> bool:
    return type(document) is dict and document.get("type") == "reply"
