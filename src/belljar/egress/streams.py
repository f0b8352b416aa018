"""Byte streams with one face: a socket, or a pair of asyncio's reader and writer. Sending waits for the other side."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from abc import ABC, abstractmethod

CHUNK = 128 << 10
_LINGER_S = 1.0
_LINGER_BYTES = 1 << 20


class Stream(ABC):
    """One connection. Nothing is read ahead except what was put back."""

    def __init__(self) -> None:
        self._ahead = b""

    async def recv(self, limit: int = CHUNK) -> bytes:
        """Some bytes, at most `limit`; none at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:limit], self._ahead[limit:]
            return data
        return await self._recv(limit)

    async def recv_exactly(self, count: int) -> bytes:
        """That many bytes.

        Raises:
            EOFError: when the stream ends before.
        """
        data = b""
        while len(data) < count:
            more = await self.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def put_back(self, data: bytes) -> None:
        """Have the next `recv` return these first."""
        self._ahead = data + self._ahead

    async def linger(self) -> None:
        """Say that no more will come and let the other side finish: a close with unread bytes can lose the answer."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await self.send_eof()
                left = _LINGER_BYTES
                while left > 0 and (data := await self.recv()):
                    left -= len(data)

    @abstractmethod
    async def _recv(self, limit: int) -> bytes: ...

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Return when the other side's buffers have taken everything."""

    @abstractmethod
    async def send_eof(self) -> None:
        """Close this direction alone, where that is possible."""

    @abstractmethod
    def close(self) -> None:
        """Close both directions. No task may be waiting on the stream any more."""

    @abstractmethod
    def abort(self) -> None:
        """Close so that the other side sees a broken connection and not an end."""


class SocketStream(Stream):
    """A connected stream socket."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__()
        connected.setblocking(False)
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        if connected.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def _recv(self, limit: int) -> bytes:
        return await self._loop.sock_recv(self._socket, limit)

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def send_eof(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


class PairStream(Stream):
    """An asyncio reader with its writer: TLS, or whatever an engine has accepted itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer

    async def _recv(self, limit: int) -> bytes:
        return await self._reader.read(limit)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def send_eof(self) -> None:
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()
