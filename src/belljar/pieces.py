"""Bytes that travel in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Join the pieces of a file."""
    content = bytearray()
    async for piece in pieces:
        content += piece
    return bytes(content)
