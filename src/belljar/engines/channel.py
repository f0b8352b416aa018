"""Frames from a kernel, checked before they are trusted. The kernel is inside the wall: anything may arrive here."""

from __future__ import annotations

import json
import struct
from typing import Any, NoReturn

from belljar.engines.base import Event

MAX_FRAME = 64 << 20
MAX_DEPTH = 100
EVENT_TYPES = frozenset({"walls", "hello", "stdout", "stderr", "result", "done"})
_HEADER = struct.Struct(">I")


class BrokenProtocol(Exception):
    """The kernel sent what no kernel of ours sends."""


def encode(request: dict[str, Any]) -> bytes:
    """One Request as a frame."""
    body = json.dumps(request, allow_nan=False).encode("ascii")
    return _HEADER.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into checked Events."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        """The Events that are complete now.

        Raises:
            BrokenProtocol: on a frame that is too large, too deep, or not an Event.
        """
        self._buffer += data
        events = []
        while len(self._buffer) >= 4:
            (size,) = _HEADER.unpack_from(self._buffer)
            if size > MAX_FRAME:
                raise BrokenProtocol(f"a frame of {size} bytes")
            if len(self._buffer) < 4 + size:
                break
            events.append(decode(bytes(self._buffer[4 : 4 + size])))
            del self._buffer[: 4 + size]
        return events


def decode(body: bytes) -> Event:
    """One checked Event.

    Raises:
        BrokenProtocol: when it is not one.
    """
    try:
        event = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as failure:
        raise BrokenProtocol(f"a frame that is not JSON: {type(failure).__name__}") from None
    if not isinstance(event, dict) or event.get("type") not in EVENT_TYPES or type(event.get("id")) is not int:
        raise BrokenProtocol("a frame that is not an event")
    if event["type"] in ("stdout", "stderr") and not isinstance(event.get("text"), str):
        raise BrokenProtocol("an output event without text")
    _check_depth(event)
    return event


def _check_depth(event: Event) -> None:
    level: list[Any] = [event]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise BrokenProtocol(f"JSON nested deeper than {MAX_DEPTH}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
