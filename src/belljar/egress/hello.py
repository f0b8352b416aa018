"""The server name in a TLS ClientHello, read without touching the stream. What is malformed is refused, not guessed."""

from __future__ import annotations

HANDSHAKE = 0x16
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HOST_NAME = 0
_MOST_RECORDS = 64


class Incomplete(Exception):
    """The message goes on in bytes that have not come yet."""


class _Bytes:
    """A walk over bytes that never leaves them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) != count:
            raise ValueError("a length in the ClientHello is wrong")
        self._at += count
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Bytes:
        return _Bytes(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self._data[self._at :]


def server_name(data: bytes) -> str | None:
    """The name that the client asks for; None when it names none.

    Raises:
        Incomplete: when more bytes are needed.
        ValueError: when this is not one well-formed ClientHello.
    """
    hello = _Bytes(_message(data))
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # ciphers
    hello.vector(1)  # compressions
    names = []
    extensions = hello.vector(2) if hello else _Bytes(b"")
    while extensions:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            listed = content.vector(2)
            while listed:
                names.append((listed.number(1), listed.vector(2)))
    if not names:
        return None
    if len(names) > 1 or names[0][0] != _HOST_NAME:
        raise ValueError("the ClientHello names more than one server")
    return names[0][1].rest().decode("ascii")


def _message(data: bytes) -> bytes:
    """The body of the first handshake message, which may be spread over several records."""
    body, at, records = b"", 0, 0
    while len(body) < 4 or len(body) < 4 + int.from_bytes(body[1:4], "big"):
        header = data[at : at + 5]
        if header and header[0] != HANDSHAKE:
            raise ValueError("another record stands inside the ClientHello")
        if len(header) < 5:
            raise Incomplete
        if header[1] != 3:
            raise ValueError("the record's version is not one of TLS")
        size = int.from_bytes(header[3:5], "big")
        if size == 0:
            raise ValueError("a record of the ClientHello is empty")
        if len(data) < at + 5 + size:
            raise Incomplete
        body += data[at + 5 : at + 5 + size]
        at += 5 + size
        records += 1
        if records > _MOST_RECORDS:
            raise ValueError("the ClientHello is cut into too many records")
        if body[0] != _CLIENT_HELLO:
            raise ValueError("the first message is not a ClientHello")
    return body[4 : 4 + int.from_bytes(body[1:4], "big")]
