"""What a PNG or JPEG shows, without an imaging library: its size, and whether it has more than one colour."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def describe(format: str, content: str) -> dict[str, Any]:
    """Reduce an image in base64 to what engines must agree on."""
    data = base64.b64decode(content, validate=True)
    if format == "png":
        width, height, many = _png(data)
        return {"format": "png", "width": width, "height": height, "more_than_one_colour": many}
    if data[:2] != b"\xff\xd8" or data[-2:] != b"\xff\xd9":
        raise ValueError("not a JPEG")
    return {"format": "jpeg", "more_than_one_colour": None}


def _png(data: bytes) -> tuple[int, int, bool]:
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("not a PNG")
    at, packed = 8, b""
    width = height = depth = colour = 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", body)
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    size = max(1, CHANNELS[colour] * depth // 8)
    return width, height, _has_colours(zlib.decompress(packed), (width * CHANNELS[colour] * depth + 7) // 8, size)


def _has_colours(raw: bytes, stride: int, size: int) -> bool:
    """Undo the filters row by row, until a pixel differs from the first."""
    previous, first = bytes(stride), b""
    for start in range(0, len(raw), stride + 1):
        kind, row = raw[start], raw[start + 1 : start + 1 + stride]
        if not (kind == 2 and not any(row)):
            previous = _unfilter(kind, row, previous, size)
        first = first or previous[:size]
        if previous != (first * (stride // size + 1))[:stride]:
            return True
    return False


def _unfilter(kind: int, row: bytes, above: bytes, size: int) -> bytes:
    if kind == 0:
        return row
    line = bytearray(row)
    for i in range(len(line)):
        left = line[i - size] if i >= size else 0
        corner = above[i - size] if i >= size else 0
        guess = {1: left, 2: above[i], 3: (left + above[i]) // 2}.get(kind)
        line[i] = (line[i] + (guess if guess is not None else _paeth(left, above[i], corner))) & 255
    return bytes(line)


def _paeth(left: int, above: int, corner: int) -> int:
    estimate = left + above - corner
    return min((left, above, corner), key=lambda each: abs(estimate - each))
