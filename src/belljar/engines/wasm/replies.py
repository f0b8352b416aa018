"""Replies to the calls that this engine answers itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from belljar.engines.transport.frames import encode

_LENGTH = struct.Struct(">I")


class Replies:
    """To one Python, which `send` sends a frame to."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send_frame = send

    def reply(self, call_id: int, value: dict[str, Any], data: bytes | None = None) -> None:
        """What came of a call. Bytes go as they are, in a line after the JSON; inside they are `data` of the value."""
        self._send({"type": "reply", "call_id": call_id, "value": value}, data)

    def fail(self, call_id: int, name: str, text: str) -> None:
        """A call came to nothing."""
        self._send({"type": "reply", "call_id": call_id, "error": {"name": name, "value": text}})

    def _send(self, reply: dict[str, Any], data: bytes | None = None) -> None:
        frame = encode(reply)
        if data is not None:
            frame = _LENGTH.pack(len(frame) - _LENGTH.size + 1 + len(data)) + frame[_LENGTH.size :] + b"\n" + data
        self._send_frame(frame)
