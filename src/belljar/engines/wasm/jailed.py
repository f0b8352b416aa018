"""Deno behind the walls of another engine, which lends them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from belljar.engines.base import Exit, Sample
from belljar.engines.confinement import Confined
from belljar.engines.wasm.runner import OnOutput, Said


class JailedRunner:
    """A confined program and its pipes."""

    def __init__(self, confined: Confined) -> None:
        self._confined = confined
        self._said = Said()
        self._input: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.ReadTransport] = []
        self.exit: asyncio.Future[Exit] = confined.exit
        self.degraded = confined.degraded

    @classmethod
    async def attach(cls, confined: Confined, on_output: OnOutput) -> JailedRunner:
        """Listen to a program that was just started."""
        runner, loop = cls(confined), asyncio.get_running_loop()
        for descriptor, take in ((confined.stdout, on_output), (confined.stderr, runner._said.add)):
            reading = os.fdopen(os.dup(descriptor), "rb", buffering=0)
            transport, _ = await loop.connect_read_pipe(lambda take=take: _Pipe(take), reading)  # type: ignore[misc]
            runner._outputs.append(transport)
        writing = os.fdopen(os.dup(confined.stdin), "wb", buffering=0)
        runner._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, writing)
        return runner

    def write(self, data: bytes) -> None:
        """Send bytes; never waits."""
        if self._input is not None and not self._input.is_closing():
            self._input.write(data)

    def unsent(self) -> int:
        """How many bytes it has not taken yet."""
        return self._input.get_write_buffer_size() if self._input is not None else 0

    def said(self) -> str:
        """The end of what it wrote to standard error."""
        return self._said.text()

    def sample(self) -> Sample:
        """What it has used so far."""
        return self._confined.sample()

    def memory_bytes(self) -> int:
        """The memory that it has now."""
        return self._confined.memory_bytes()

    def settle(self) -> None:
        """It has come up: it gets no more than its limits from here on."""
        self._confined.settle()

    async def kill(self) -> None:
        """End it."""
        await self._confined.kill()

    async def close(self) -> None:
        """End it and leave nothing behind."""
        for transport in (self._input, *self._outputs):
            if transport is not None and not transport.is_closing():
                transport.abort() if isinstance(transport, asyncio.WriteTransport) else transport.close()
        await self._confined.close()


class _Pipe(asyncio.Protocol):
    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def data_received(self, data: bytes) -> None:
        self._take(data)
