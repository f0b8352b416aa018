"""A running Deno, wherever it runs: bytes in, bytes out, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from belljar.engines.base import Exit, Sample

OnOutput = Callable[[bytes], None]
SAID_BYTES = 4096  # of what it writes to standard error, the last


class Runner(Protocol):
    """One Deno process. `exit` never fails; it is done when the process has ended, however it did."""

    exit: asyncio.Future[Exit]
    degraded: tuple[str, ...]

    def write(self, data: bytes) -> None:
        """Send bytes; never waits."""

    def unsent(self) -> int:
        """How many bytes it has not taken yet."""

    def said(self) -> str:
        """The end of what it wrote to standard error."""

    def sample(self) -> Sample:
        """What it has used so far."""

    def memory_bytes(self) -> int:
        """The memory that it has now."""

    def settle(self) -> None:
        """It has come up."""

    async def kill(self) -> None:
        """End it."""

    async def close(self) -> None:
        """End it and leave nothing behind. Idempotent."""


class Said:
    """The last bytes that a process wrote to standard error."""

    def __init__(self) -> None:
        self._last = b""

    def add(self, data: bytes) -> None:
        """Keep the end of it."""
        self._last = (self._last + data)[-SAID_BYTES:]

    def text(self) -> str:
        """In one line."""
        return " ".join(self._last.decode(errors="replace").split())
