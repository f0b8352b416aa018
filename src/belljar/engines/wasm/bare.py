"""Deno as a plain child process, where there is no jail: its permissions are the wall, and its memory is watched."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from belljar.engines.base import Exit, Sample
from belljar.engines.usage import used
from belljar.engines.wasm.deno import ENVIRONMENT
from belljar.engines.wasm.runner import OnOutput, Said
from belljar.errors import StartFailed

WATCH_EVERY_S = 0.03
WATCH_CLOSELY_S = 0.003  # once half of what it may have is used


class BareRunner(asyncio.SubprocessProtocol):
    """A child process with pipes; it ends when its standard input does, so also when this process ends."""

    def __init__(self, on_output: OnOutput, memory_bytes: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.exit: asyncio.Future[Exit] = self.loop.create_future()
        self.degraded: tuple[str, ...] = ()
        self._on_output = on_output
        self._memory_bytes = memory_bytes
        self._said = Said()
        self._transport: asyncio.SubprocessTransport | None = None
        self._watch: asyncio.Task[None] | None = None
        self._is_over_memory = False
        self._sample = Sample(0.0, 0)

    @classmethod
    async def start(cls, argv: tuple[str, ...], on_output: OnOutput, memory_bytes: int) -> BareRunner:
        """Start the process with an empty environment.

        Raises:
            StartFailed: when the system refuses.
        """
        runner = cls(on_output, memory_bytes)
        try:
            await runner.loop.subprocess_exec(
                lambda: runner, *argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**ENVIRONMENT, **_system()}, cwd=Path(argv[0]).anchor,
            )  # fmt: skip
        except OSError as failure:
            raise StartFailed(f"deno could not be started: {failure}") from failure
        runner._forbid_files()
        if await asyncio.to_thread(used, os.getpid()) is None:
            runner.degraded = ("memory beside Python's",)
        runner._watch = runner.loop.create_task(runner._watch_memory())
        return runner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process is there."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It wrote something."""
        if fd == 1:
            self._on_output(data)
        else:
            self._said.add(data)

    def connection_lost(self, _: Exception | None) -> None:
        """It has ended and all that it wrote was read."""
        code = self._transport.get_returncode() if self._transport else None
        if not self.exit.done():
            ended = Exit(code=code) if code is not None and code >= 0 else Exit(signal=-(code or -9))
            self.exit.set_result(Exit(ended.code, ended.signal, self._is_over_memory))

    def write(self, data: bytes) -> None:
        """Send bytes; never waits."""
        pipe = self._pipe()
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def unsent(self) -> int:
        """How many bytes it has not taken yet."""
        pipe = self._pipe()
        return pipe.get_write_buffer_size() if pipe is not None else 0

    def said(self) -> str:
        """The end of what it wrote to standard error."""
        return self._said.text()

    def sample(self) -> Sample:
        """Processor time and the most memory that was seen."""
        if self._transport is not None and not self.exit.done() and os.path.exists("/proc/self/stat"):
            now = used(self._transport.get_pid())
            if now is not None:
                self._sample = Sample(now[0], max(self._sample.peak_memory_bytes, now[1]))
        return self._sample

    def memory_bytes(self) -> int:
        """The memory that it has now, where the system tells."""
        now = used(self._transport.get_pid()) if self._transport is not None and not self.exit.done() else None
        return now[1] if now else 0

    def settle(self) -> None:
        """It has come up; nothing was lent for that."""

    async def kill(self) -> None:
        """End it."""
        if self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()
        await asyncio.wait((self.exit,), timeout=5)

    async def close(self) -> None:
        """End it and leave nothing behind."""
        if self._watch is not None:
            self._watch.cancel()
        await self.kill()
        if self._transport is not None:
            self._transport.close()

    def _pipe(self) -> asyncio.WriteTransport | None:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        return pipe if isinstance(pipe, asyncio.WriteTransport) else None

    def _forbid_files(self) -> None:
        """No file can grow by a single byte, whatever Deno thinks of on its own. Only Linux can be told from here."""
        if sys.platform == "linux" and self._transport is not None:
            import resource

            with contextlib.suppress(OSError):
                resource.prlimit(self._transport.get_pid(), resource.RLIMIT_FSIZE, (0, 0))

    async def _watch_memory(self) -> None:
        """What WebAssembly's own limit does not bound, such as JavaScript's buffers, is bounded here."""
        pause = WATCH_EVERY_S
        while not self.exit.done() and self._transport is not None:
            await asyncio.sleep(pause)
            now = await asyncio.to_thread(used, self._transport.get_pid())
            if now is None:
                continue
            self._sample = Sample(now[0], max(self._sample.peak_memory_bytes, now[1]))
            pause = WATCH_EVERY_S if now[1] < self._memory_bytes / 2 else WATCH_CLOSELY_S
            if now[1] > self._memory_bytes:
                self._is_over_memory = True
                await self.kill()


def _system() -> dict[str, str]:
    """What Windows itself needs to start a process."""
    return {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if "SYSTEMROOT" in os.environ else {}
