"""One connection to the world: what it moves is counted, and it ends when its time is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

from belljar.egress.caps import Meter
from belljar.egress.refusals import Refused, Unreachable
from belljar.egress.streams import CHUNK, Stream

Way = Literal["connect", "http", "socks", "fetch"]


@dataclass
class Connection:
    """An allowed connection: where it leads, and what it has moved."""

    host: str
    port: int
    address: str
    way: Way
    sent: int = 0
    received: int = 0
    seconds: float = 0.0


class Line:
    """A stream to an allowed host, for one task at a time in each direction."""

    def __init__(self, stream: Stream, connection: Connection, meter: Meter, on_end: Callable[[Line], None]) -> None:
        self.connection = connection
        host = connection.host
        self.target = f"[{host}]:{connection.port}" if ":" in host else f"{host}:{connection.port}"
        self._stream = stream
        self._meter = meter
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._begin = self._active = self._loop.time()
        self._over: Refused | Unreachable | None = None
        self._scope: asyncio.Timeout | None = None
        self._timer = self._loop.call_at(self._due(), self._look)
        self._ended = False

    async def recv(self, limit: int = CHUNK) -> bytes:
        """Some bytes from the host; none at the end."""
        data = await self._stream.recv(limit)
        self._meter.receive(self.target, len(data))
        self.connection.received += len(data)
        self._active = self._loop.time()
        return data

    async def send(self, data: bytes) -> None:
        """Bytes to the host; returns when they are on their way."""
        self._meter.send(self.target, len(data))
        self.connection.sent += len(data)
        await self._stream.send(data)
        self._active = self._loop.time()

    async def send_eof(self) -> None:
        """Tell the host that no more will come."""
        await self._stream.send_eof()

    @contextlib.asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Everything that waits for this line waits in here.

        Raises:
            Refused: when the line was idle for too long, or its time is over.
        """
        try:
            async with asyncio.timeout(None) as self._scope:
                if self._over:
                    raise self._over
                yield
        except TimeoutError:
            if self._over:
                raise self._over from None
            raise
        finally:
            self._scope = None

    def expects(self, count: int) -> None:
        """Refuse an announced length that could not be received in full anyway."""
        self._meter.receive(self.target, count, dry=True)

    def close(self, broken: bool = False) -> None:
        """End the line and report it, once."""
        if self._ended:
            return
        self._ended = True
        self._timer.cancel()
        if broken:
            self._stream.abort()
        else:
            self._stream.close()
        self.connection.seconds = self._loop.time() - self._begin
        self._on_end(self)

    def cut(self, reason: Refused | Unreachable) -> None:
        """End the line from outside: whoever waits for it gets the reason."""
        self._over = reason
        if self._scope is not None:
            self._scope.reschedule(self._loop.time())
        else:
            self.close(broken=True)

    def _due(self) -> float:
        caps = self._meter.caps
        return min(self._active + caps.idle_s, self._begin + caps.total_s)

    def _look(self) -> None:
        """One timer for the life of the line; it is moved when it fires, not with every byte."""
        due = self._due()
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._look)
            return
        caps = self._meter.caps
        if due < self._begin + caps.total_s:
            rule, hint = f"a connection may be idle for {caps.idle_s:g} s", "open a new connection when it is needed"
        else:
            rule, hint = f"a connection may last {caps.total_s:g} s", "fetch the rest over a new connection"
        self.cut(Refused(self.target, rule, hint))
