"""Replies to the calls that this engine answers itself, into a process that may not read them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from belljar.engines.transport.frames import encode
from belljar.engines.wasm.runner import Runner

MOST_UNSENT = 48 << 20  # to a process that does not read
_LENGTH = struct.Struct(">I")


class Replies:
    """To one Python, which `runner` leads to. It is given up when it reads nothing of what it asked for."""

    def __init__(self, runner: Runner, give_up: Callable[[str], None]) -> None:
        self._runner = runner
        self._give_up = give_up

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
        self._runner.write(frame)
        if self._runner.unsent() > MOST_UNSENT:
            self._give_up("the kernel broke the protocol: it asks and does not listen")
