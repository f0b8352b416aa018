"""One wasm sandbox seen from the host: a Deno process with Python in it, replaced as a whole when it must be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from belljar.engines import exits
from belljar.engines.base import Event, Exit, KernelExited, OnEvent, Sample, ignore
from belljar.engines.channel import encode
from belljar.engines.exchange import Exchange
from belljar.engines.wasm.layer import layer_requests
from belljar.engines.wasm.leaving import LEAVE_TIMEOUT_S, Leaving, Restore
from belljar.engines.wasm.runner import OnOutput, Runner
from belljar.engines.wasm.workspace import MemoryWorkspace
from belljar.errors import SandboxClosed, StartFailed
from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar_kernel import PROTOCOL, digest

Launch = Callable[[Environment, OnOutput], Awaitable[Runner]]

START_TIMEOUT_S = 60
ENVIRONMENT = {
    "HOME": "/home/sandbox", "USER": "sandbox", "LOGNAME": "sandbox", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
    "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip


class WasmProcess:
    """A sandbox of the wasm engine."""

    def __init__(self, launch: Launch, packages: Environment, limits: Limits) -> None:
        self.limits = limits
        self._packages = packages
        self.workspace = MemoryWorkspace(self._ask)
        self.environment: Mapping[str, str] = ENVIRONMENT
        self._launch = launch
        self._runner: Runner | None = None
        self._exchange: Exchange | None = None
        self._turn = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._request_ids = 0
        self._closing: asyncio.Task[None] | None = None
        self._before = Sample(0.0, 0)  # what processes that were replaced had used
        self._files: list[Restore] | None = []  # of a process that was ended, for the next; None when they are lost
        self._leaving: Leaving | None = None
        self._is_spare = False  # up for the sake of the files; its Python counts only after restart()

    @property
    def degraded(self) -> tuple[str, ...]:
        """The layers that are missing with the operator's leave."""
        return self._runner.degraded if self._runner else ()

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""
        return not self._is_spare and self._is_up

    @property
    def _is_up(self) -> bool:
        return (
            self._closing is None
            and self._runner is not None
            and self._exchange is not None
            and not self._runner.exit.done()
            and not self._exchange.ended.done()
        )

    async def start(self) -> None:
        """Bring up the process; nothing is left behind when that fails.

        Raises:
            StartFailed: with what it said.
        """
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request and see it through."""
        async with self._turn:
            await self.idle()
            if not self.alive:
                raise KernelExited(await self._exit_facts())
            return await self._exchange_with(request, on_event)

    async def idle(self) -> None:
        """Return when no Request is open."""
        if self._exchange is not None and self._exchange.done is not None:
            await asyncio.wait((self._exchange.done,))

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code; there are no other processes."""
        if self._runner is not None:
            self._runner.write(encode({"type": "interrupt"}))

    async def kill(self) -> None:
        """End the process; its files are taken over first, whatever its Python is doing."""
        runner, exchange = self._runner, self._exchange
        if runner is None or exchange is None:
            return
        if self._leaving is not None:  # it is being ended
            await asyncio.wait((runner.exit,))
            return
        if runner.exit.done():
            self._files = None
            return
        self._leaving = leaving = Leaving(self.limits.disk_mb << 20)
        exchange.end(None)
        runner.exit.add_done_callback(lambda _: leaving.give_up())
        runner.write(encode({"type": "leave", "marker": leaving.marker.hex()}))
        await asyncio.wait((leaving.files,), timeout=LEAVE_TIMEOUT_S)
        leaving.give_up()
        self._files = leaving.files.result()
        await runner.kill()

    async def restart(self) -> bool:
        """A fresh process with the files of the last; False when that could not give them any more."""
        async with self._starting:
            if not (self._is_spare and self._is_up):
                await self._replace()
            kept, self._is_spare = self._files is not None, False
            self._files = []
            return kept

    async def provide(self, environment: Environment) -> None:
        """Mount the packages of another layer; they go in as bytes, since the process can read no file any more."""
        async with self._turn:
            await self.idle()
            if self._is_up:
                await self._show_packages(environment)
            self._packages = environment

    def sample(self) -> Sample:
        """Processor time so far and the most memory there was."""
        return _added(self._before, self._runner.sample()) if self._runner else self._before

    async def close(self) -> None:
        """End everything and leave nothing behind, even when nobody waits for it any more."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._runner is not None:
            await self._runner.kill()
        async with self._starting:
            await self._drop()

    async def _replace(self) -> None:
        """Another process, with the files of this one."""
        await self.kill()
        await self._drop()
        if self._closing is not None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        await self._start()
        for restore in self._files or []:
            await self._exchange_with(restore, ignore)

    async def _start(self) -> None:
        exchange, self._leaving = Exchange(), None
        self._exchange = exchange
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                runner = self._runner = await self._launch(self._packages, self._take)
                runner.exit.add_done_callback(lambda _: exchange.end(None))
                await asyncio.wait((exchange.hello, exchange.ended), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise StartFailed(f"the sandbox was not up after {START_TIMEOUT_S} s; is the machine overloaded?") from None
        if not exchange.hello.done():
            raise StartFailed(f"the WebAssembly sandbox did not come up: {runner.said() or exchange.ended.result()}")
        hello = exchange.hello.result()
        if hello.get("protocol") != PROTOCOL or hello.get("digest") != digest():
            raise StartFailed("the kernel inside is not the one that this Belljar brought; clear the cache folder")
        if self._packages.layer is not None:
            await self._show_packages(self._packages)
        runner.settle()

    async def _show_packages(self, environment: Environment) -> None:
        for request in layer_requests(environment.layer):
            answer = await self._exchange_with(request, ignore)
            if failure := answer.get("failure"):
                raise StartFailed(f"packages cannot be shown to the sandbox: {str(failure)[:200]}")

    def _take(self, data: bytes) -> None:
        if self._leaving is not None:
            self._leaving.take(data)
        elif self._exchange is not None:
            self._exchange.take(data)

    async def _exchange_with(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        exchange, runner = self._exchange, self._runner
        if exchange is None or runner is None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        self._request_ids += 1
        waiter = exchange.open(self._request_ids, on_event)
        runner.write(encode({**request, "id": self._request_ids}))
        try:
            done = await waiter
        except asyncio.CancelledError:
            exchange.abandon()
            raise
        if done is None:
            await self.kill()
            raise KernelExited(await self._exit_facts())
        exchange.on_event = None
        return done

    async def _drop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            self._before = _added(self._before, runner.sample())
            await runner.close()
        if self._exchange is not None:
            self._exchange.end(None)

    async def _ask(self, request: dict[str, Any]) -> Event:
        """About files: they can be asked for between the end of one Python and the start of the next."""
        async with self._turn:
            await self.idle()
            async with self._starting:
                if not self._is_up and self._closing is None:
                    await self._replace()
                    self._is_spare = True
            return await self._exchange_with(request, ignore)

    async def _exit_facts(self) -> Exit:
        if self._runner is None:
            return Exit(broken="it was closed")
        said = self._exchange.ended.result() if self._exchange and self._exchange.ended.done() else None
        code = self._exchange.code if self._exchange else None
        if code is not None:  # it ended by itself; what ended the process then was us
            facts = Exit(code=code)
        else:
            await asyncio.wait((self._runner.exit,), timeout=5)
            facts = self._runner.exit.result() if self._runner.exit.done() else Exit(broken="it stopped answering")
        if facts.code is not None and facts.code > exits.SIGNAL_BASE:  # how a process in WebAssembly ends by a signal
            facts = Exit(signal=facts.code - exits.SIGNAL_BASE)
        return Exit(facts.code, facts.signal, facts.out_of_memory, said or facts.broken)


def _added(before: Sample, now: Sample) -> Sample:
    return Sample(before.cpu_s + now.cpu_s, max(before.peak_memory_bytes, now.peak_memory_bytes))
