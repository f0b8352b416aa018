"""Frames from a kernel, checked before they are trusted. The kernel is inside the wall: anything may arrive here."""

from __future__ import annotations

import json
import math
import re
import struct
from typing import Any, NoReturn

from belljar.engines.base import Event
from belljar_kernel.protocol import EVENTS, FRAME_BYTES, FRAME_DEPTH, FRAME_PARTS, Fields

_HEADER = struct.Struct(">I")
_STRING = re.compile(rb'"[^"]*"')


class BrokenProtocol(Exception):
    """The kernel sent what no kernel of ours sends."""


def encode(request: dict[str, Any]) -> bytes:
    """One Request as a frame."""
    body = _ENCODER.encode(request).encode("ascii")
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
            if size > FRAME_BYTES:
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
    if _parts(body) > FRAME_PARTS and _has_too_many_parts(body):
        raise BrokenProtocol(f"a frame of more than {FRAME_PARTS} parts")
    try:
        event: Event = _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as failure:
        raise BrokenProtocol(f"a frame that is not JSON: {type(failure).__name__}") from None
    kind, number = (event.get("type"), event.get("id")) if isinstance(event, dict) else (None, None)
    if not isinstance(kind, str) or kind not in EVENTS or type(number) is not int:
        raise BrokenProtocol("a frame that is not an event")
    check_fields(event, EVENTS[kind])
    if body.count(b"[") + body.count(b"{") > FRAME_DEPTH:
        _check_depth(event)
    return event


def check_fields(event: Event, fields: Fields) -> None:
    """Look at the types of an Event's fields.

    Raises:
        BrokenProtocol: when one is not what the protocol says.
    """
    for name, types in fields.items():
        if types and type(event.get(name)) not in types:
            raise BrokenProtocol(f"an event {event['type']} whose {name} is not what it should be")


def _check_depth(event: Event) -> None:
    level: list[Any] = [event]
    for _ in range(FRAME_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise BrokenProtocol(f"JSON nested deeper than {FRAME_DEPTH}")


def _has_too_many_parts(body: bytes) -> bool:
    """Seen before it is parsed, and in linear time: what is in strings does not count."""
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    return bare.count(b'"') > 4 * FRAME_PARTS or _parts(_STRING.sub(b"", bare)) > FRAME_PARTS


def _parts(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_ENCODER = json.JSONEncoder(allow_nan=False)  # once: to make one takes as long as a small frame
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
