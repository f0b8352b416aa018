"""Bytes that travel in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Join the pieces of a file."""
    content = bytearray()
    async for piece in pieces:
        content += piece
    return bytes(content)


async def cut(parts: Iterable[bytes | bytearray], most: int) -> AsyncIterator[bytes]:
    """Hand out the bytes of these parts, in pieces of so many at the most: no other copy of them is made."""
    for part in parts:
        for start in range(0, len(part), most):
            yield bytes(part[start : start + most])
