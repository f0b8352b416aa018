"""Files whose content travels in pieces: out as `state` Events, in as `load` Requests."""

from __future__ import annotations

import base64
import zlib
from collections import deque

from belljar_kernel.protocol import STATE_PIECE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from belljar_kernel.answer import Answer


class Writer:
    """A file whose content leaves as `state` Events of one part."""

    def __init__(self, answer: Answer, part: int) -> None:
        self.size = 0
        self._answer = answer
        self._part = part
        self._held = bytearray()

    def write(self, data: Any) -> int:
        """Send what is enough for an Event."""
        view = memoryview(data).cast("B")
        self.size += len(view)
        if len(self._held) + len(view) < STATE_PIECE_BYTES:
            self._held += view
            return len(view)
        self.flush()
        for start in range(0, len(view), STATE_PIECE_BYTES):
            self._emit(view[start : start + STATE_PIECE_BYTES])
        return len(view)

    def flush(self) -> None:
        """Send what is held back."""
        if self._held:
            held, self._held = self._held, bytearray()
            self._emit(held)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def _emit(self, data: Any) -> None:
        self._answer.send("state", {"part": self._part, "data": base64.b64encode(data).decode("ascii")})


class Reader:
    """A file of the pieces that arrived; each is let go as soon as it was read."""

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self._packed: deque[tuple[bytes, bool]] = deque()

    def add(self, piece: bytes, is_packed: bool) -> None:
        """One more piece; a packed one stays so until it is read."""
        self._packed.append((piece, is_packed))

    def read(self, size: int = -1) -> bytes:
        """As many bytes as are asked for, or are left."""
        taken = bytearray()
        while self._has_more() and (size < 0 or len(taken) < size):
            taken += self._take(size - len(taken) if size >= 0 else -1)
        return bytes(taken)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        view, done = memoryview(buffer).cast("B"), 0
        while self._has_more() and done < len(view):
            piece = self._take(len(view) - done)
            view[done : done + len(piece)] = piece
            done += len(piece)
        return done

    def readline(self) -> bytes:
        """Up to the end of a line."""
        taken = bytearray()
        while self._has_more() and not taken.endswith(b"\n"):
            taken += self._take(1)
        return bytes(taken)

    def _has_more(self) -> bool:
        while not self._pieces and self._packed:
            piece, is_packed = self._packed.popleft()
            if piece:
                self._pieces.append(memoryview(zlib.decompress(piece) if is_packed else piece))
        return bool(self._pieces)

    def _take(self, size: int) -> memoryview:
        piece = self._pieces.popleft()
        if 0 <= size < len(piece):
            self._pieces.appendleft(piece[size:])
            piece = piece[:size]
        return piece
