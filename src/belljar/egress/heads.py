"""The head of a guest's request, read in bounds and checked to the byte before any parser may be lenient with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from belljar.egress.refusals import Refused
from belljar.egress.streams import Stream

_END = b"\r\n\r\n"
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}) ([\x21-\x7e]+) (HTTP/1\.[01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_MOST_HEADERS = 128
_ONCE = (b"host", b"content-length", b"transfer-encoding")


@dataclass(frozen=True)
class Head:
    """A request's first line and headers, and the bytes they came in."""

    method: str
    target: str
    version: str
    headers: list[tuple[bytes, bytes]]
    raw: bytes

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header, named in lower case."""
        return [value for found, value in self.headers if found == name]


async def read_head(stream: Stream, limit: int) -> Head | None:
    """The next head, with whatever follows it put back; None when the stream ends before it begins.

    Raises:
        Refused: when it is too long, or anything in it could be read in two ways.
    """
    raw, seen = bytearray(), 0
    while True:
        data = await stream.recv(limit)
        if not data and not raw:
            return None
        raw += data
        end = raw.find(_END, max(0, seen - 3))
        stop = end + 4 if end >= 0 else len(raw)
        if not data or not raw[:1].isalpha():
            raise _malformed("it ended early" if not data else "it does not begin with a method")
        if _BARE.search(raw, max(0, seen - 1), stop):
            raise _malformed("its lines must end in CR LF")
        if stop > limit or (end < 0 and stop == limit):
            raise Refused("a request", f"its head may have {limit} bytes", "send fewer or shorter headers", status=431)
        if end >= 0:
            stream.put_back(bytes(raw[stop:]))
            return parse_head(bytes(raw[:stop]))
        seen = len(raw)


def parse_head(raw: bytes) -> Head:
    """Split a head that ends in an empty line.

    Raises:
        Refused: when any line is not exactly as the standard writes it.
    """
    first, *lines = raw.removesuffix(_END).split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise _malformed("its first line is not a method, a target and HTTP/1.0 or HTTP/1.1")
    if len(lines) > _MOST_HEADERS:
        raise Refused("a request", f"it may have {_MOST_HEADERS} headers", "send fewer headers", status=431)
    headers = []
    for text in lines:
        header = _HEADER.fullmatch(text)
        if header is None:
            raise _malformed("a header has a folded line, a control character or no sound name")
        headers.append((header[1].lower(), header[2].rstrip(b" \t")))
    head = Head(line[1].decode(), line[2].decode(), line[3].decode(), headers, raw)
    _check_framing(head)
    return head


def _check_framing(head: Head) -> None:
    """Where the body ends must have one answer."""
    for name in _ONCE:
        if len(head.values(name)) > 1:
            raise _malformed(f"it has more than one {name.decode()} header")
    coding, length = head.values(b"transfer-encoding"), head.values(b"content-length")
    if coding and (length or head.version != "HTTP/1.1"):
        raise _malformed("it has a transfer-encoding beside a content-length, or in HTTP/1.0")
    if coding and coding[0].lower() != b"chunked":
        raise _malformed("its transfer-encoding is not chunked")
    if length and not re.fullmatch(rb"[0-9]{1,18}", length[0]):
        raise _malformed("its content-length is not a number")


def _malformed(reason: str) -> Refused:
    return Refused("a request", "requests must be well-formed HTTP/1.1", reason, status=400)
