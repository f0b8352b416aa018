"""One wasm sandbox seen from the host: a Deno process with Python in it, replaced as a whole when it must be."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from os import fspath
from typing import TYPE_CHECKING, Any

from belljar.egress.network import Network
from belljar.engines import exits
from belljar.engines.base import Event, Exit, KernelExited, OnEvent, Sample, Spec, ignore
from belljar.engines.kernel_workspace import KernelWorkspace
from belljar.engines.setup import VARIABLES, configuration
from belljar.engines.wasm.builtins import Builtins
from belljar.engines.wasm.fetches import Fetches
from belljar.engines.wasm.folders import Folders
from belljar.engines.wasm.layer import layer_requests
from belljar.engines.wasm.leaving import (
    END_TIMEOUT_S,
    HAND_BACK_TIMEOUT_S,
    HAND_OVER_TIMEOUT_S,
    Leaving,
    Restore,
    in_order,
    listing,
)
from belljar.engines.wasm.mounts import Mounts
from belljar.engines.wasm.python import PythonExchange
from belljar.engines.wasm.replies import Replies
from belljar.engines.wasm.runner import OnOutput, Runner
from belljar.errors import FileError, SandboxClosed, StartFailed
from belljar.packages.environment import Environment

if TYPE_CHECKING:
    from belljar.egress.server import Egress

Launch = Callable[[Spec, OnOutput], Awaitable[Runner]]

START_TIMEOUT_S = 60
ASK_TIMEOUT_S = 8
MOST_CONNECTIONS = 64  # to allowed hosts, at once: this process holds the bodies that are on their way
LAST_SIGNAL = 31
ENVIRONMENT = {**VARIABLES, "PATH": "/usr/bin:/bin"}


class WasmProcess:
    """A sandbox of the wasm engine."""

    def __init__(self, launch: Launch, spec: Spec) -> None:
        self.spec = spec
        self.network = Network(spec.policy.network, MOST_CONNECTIONS)
        self._folders: Folders | None = None  # held from the start: they may be moved
        self.workspace = KernelWorkspace(self._ask)
        self._launch = launch
        self._runner: Runner | None = None
        self._exchange: PythonExchange | None = None
        self._leaving: Leaving | None = None
        self._ending: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._before = Sample(0.0, 0)  # what processes that were replaced had used
        self._files: list[Restore] | None = []  # for the next process, until it has them all; None when they are lost
        self._has_files = False  # whether the process that is there has them all
        self._are_kept = True
        self._is_spare = False  # up for the sake of the files; its Python counts only after restart()

    @property
    def degraded(self) -> tuple[str, ...]:
        """The layers that are missing with the operator's leave."""
        return self._runner.degraded if self._runner else ()

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""
        return self._is_ready and not self._is_spare

    @property
    def _is_ready(self) -> bool:
        return (
            self._closing is None
            and self._has_files
            and self._runner is not None
            and self._exchange is not None
            and not self._runner.exit.done()
            and not self._exchange.ended.done()
        )

    async def start(self, rehearsals: int = 0) -> None:
        """Bring up the process with a configured kernel; nothing is left behind when that fails.

        Raises:
            StartFailed: with what it said.
        """
        try:
            if mounts := self.spec.policy.mounts:
                self._folders = await asyncio.to_thread(Folders, [fspath(folder) for folder in mounts.values()])
            await self._start()
            self._has_files = True
            await self._configure(rehearsals)
            if self.spec.policy.network:  # a mistake in the list is the caller's to know, before anything runs
                await self.network.egress()
        except BaseException:
            await self.close()
            raise

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request and see it through."""
        async with self._turn:
            await self._answered()
            if not self.alive:
                raise KernelExited(await self._exit_facts())
            return await self._exchange_with(request, on_event)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        if self.alive and self._exchange is not None:
            self._exchange.send(message)

    async def idle(self) -> None:
        """Return when no Request is open, and none waits for its turn."""
        async with self._turn:
            await self._answered()

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code; there are no other processes."""
        if self._exchange is not None:
            self._exchange.send({"type": "interrupt"})

    async def kill(self) -> None:
        """End Python, whatever it is doing. Its process goes on for a moment, to hand over the files."""
        if self._runner is not None and self._exchange is not None:
            await asyncio.wait((self._end(self._runner, self._exchange).ended,))

    async def restart(self) -> bool:
        """A fresh process with the files of the last; False when that could not give them any more."""
        async with self._starting:
            if not (self._is_spare and self._is_ready):
                await self._replace()
            self._is_spare = False
            await self._configure()
            return self._are_kept

    async def provide(self, environment: Environment) -> None:
        """Mount the packages of another layer; they go in as bytes, since the process can read no file any more."""
        async with self._turn:
            await self._answered()
            if self._is_ready:
                await self._show_packages(environment)
            self.spec = replace(self.spec, environment=environment)

    def fits(self, spec: Spec) -> bool:
        """Whether `reconfigure` can give it this spec. Memory and disk cannot change after the start."""
        before = self.spec.limits
        fixed = replace(spec.limits, timeout_s=before.timeout_s, output_mb=before.output_mb)
        return not spec.policy.mounts and fixed == before

    async def reconfigure(self, spec: Spec) -> None:
        """Take other variables and allowed hosts than those it was made with.

        Raises:
            InvalidRequest: for an entry of `Policy.network` that has no clear meaning.
            StartFailed: when the kernel ended meanwhile.
        """
        before, self.spec = self.spec, spec
        if spec.policy.network:
            self.network = Network(spec.policy.network, MOST_CONNECTIONS)
        if spec.env or spec.policy.network or spec.limits != before.limits:
            await self._configure()
        if spec.policy.network:
            await self.network.egress()

    def sample(self) -> Sample:
        """Processor time so far and the most memory there was."""
        return _added(self._before, self._runner.sample()) if self._runner else self._before

    def memory_bytes(self) -> int:
        """The memory that it has now."""
        return self._runner.memory_bytes() if self._runner else 0

    async def close(self) -> None:
        """End everything and leave nothing behind, even when nobody waits for it any more."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            if self._runner is not None:
                await self._runner.kill()
            async with self._starting:
                await self._drop()
                if self._folders is not None:
                    self._folders.close()
        finally:
            await self.network.close()

    async def _configure(self, rehearsals: int = 0) -> None:
        try:
            await self.request(configuration(self.spec, ENVIRONMENT, rehearsals), ignore)
        except KernelExited as ended:
            raise exits.in_set_up(ended.exit, self.spec.limits) from None

    async def _way_out(self) -> Egress:
        """The proxy of the network that the sandbox has when a request is made."""
        return await self.network.egress()

    async def _start(self) -> None:
        exchange = self._exchange = PythonExchange()
        self._leaving, self._has_files = None, False
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                runner = self._runner = await self._launch(self.spec, self._take)
                exchange.write = runner.write
                runner.exit.add_done_callback(lambda _: exchange.end(None))
                came_up = await exchange.came_up()
        except TimeoutError:
            raise StartFailed(f"the sandbox was not up after {START_TIMEOUT_S} s; is the machine overloaded?") from None
        if not came_up:
            await runner.kill()  # all that it wrote has been read then
            said = runner.said() or exchange.broken or "it ended"
            raise StartFailed(f"the WebAssembly sandbox did not come up: {said}")
        exchange.ended.add_done_callback(lambda _: self._on_end(runner, exchange))
        replies = Replies(runner, exchange.end)
        mounts = Mounts(self._folders.again(), replies) if self._folders is not None else None
        builtins = Builtins(Fetches(lambda: self._way_out, replies), mounts)
        exchange.on_builtin = builtins.take
        exchange.ended.add_done_callback(lambda _: builtins.end())
        if self.spec.environment.layer is not None:
            await self._show_packages(self.spec.environment)
        runner.settle()

    async def _replace(self) -> None:
        """Another process, with the files of this one. Its Python does not count until restart() says so."""
        self._is_spare = True
        await self._start_anew()
        try:
            async with asyncio.timeout(HAND_BACK_TIMEOUT_S):
                kept = await self._hand_back()
        except TimeoutError:  # there may be too many, or they came from code that made them so
            self._files, kept = None, False
            if self._runner is not None:
                await self._runner.kill()
            await self._start_anew()
        self._files, self._has_files, self._are_kept = [], True, kept

    async def _hand_back(self) -> bool:
        """Give the files to the process that is there; False when not all are."""
        kept = self._files is not None
        for restore in in_order(self._files or []):
            kept = (await self._exchange_with(restore, ignore)).get("failure") is None and kept
        return kept

    async def _start_anew(self) -> None:
        await self.kill()
        if self._ending is not None:
            await asyncio.shield(self._ending)
        await self._drop()
        if self._closing is not None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        await self._start()

    def _on_end(self, runner: Runner, exchange: PythonExchange) -> None:
        """Python ended, or broke the protocol, with or without a Request open."""
        if runner is self._runner and self._closing is None:
            self._end(runner, exchange)

    def _end(self, runner: Runner, exchange: PythonExchange) -> Leaving:
        """Tell a process, once, to end its Python and to hand over the files."""
        if self._leaving is None:
            self._leaving = leaving = Leaving(self.spec.limits.disk_mb)
            exchange.end(None)
            if runner.exit.done():
                leaving.give_up()
            runner.exit.add_done_callback(lambda _: leaving.give_up())
            exchange.send({"type": "leave", "marker": leaving.marker.hex()})
            self._ending = asyncio.get_running_loop().create_task(self._take_over(runner, leaving))
        return self._leaving

    async def _take_over(self, runner: Runner, leaving: Leaving) -> None:
        await asyncio.wait((leaving.ended,), timeout=END_TIMEOUT_S)
        if leaving.ended.done():
            await asyncio.wait((leaving.files,), timeout=HAND_OVER_TIMEOUT_S)
        await runner.kill()
        leaving.give_up()
        if self._has_files:  # else those that it should have been given are still here
            self._files, self._has_files = leaving.files.result(), False

    async def _drop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            self._before = _added(self._before, runner.sample())
            await runner.close()
        if self._exchange is not None:
            self._exchange.end(None)

    async def _show_packages(self, environment: Environment) -> None:
        """Raises StartFailed when they cannot be shown; a process that does not even answer is ended."""
        try:
            for request in layer_requests(environment.layer):
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    answer = await self._exchange_with(request, ignore)
                if failure := answer.get("failure"):
                    raise StartFailed(f"packages cannot be shown to the sandbox: {str(failure)[:200]}")
        except TimeoutError:
            await self.kill()
            raise StartFailed("the sandbox did not take its packages, and its Python was ended") from None
        except KernelExited as ended:
            raise StartFailed(f"the sandbox's Python ended while it was given its packages: {ended.exit}") from None

    def _take(self, data: bytes) -> None:
        if self._leaving is not None:
            self._leaving.take(data)
        elif self._exchange is not None:
            self._exchange.take(data)

    async def _answered(self) -> None:
        if self._exchange is not None:
            await self._exchange.idle()

    async def _exchange_with(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        exchange = self._exchange
        if exchange is None or self._runner is None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        return await exchange.request(request, on_event, self._end_python)

    async def _ask(self, request: dict[str, Any]) -> Event:
        """About files: they can be asked for between the end of one Python and the start of the next."""
        async with self._turn:
            await self._answered()
            async with self._starting:
                if not self._is_ready and self._closing is None:
                    if (rows := await self._handed_over(request)) is not None:
                        return {"entries": rows}
                    await self._replace()
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    return await self._exchange_with(request, ignore)
            except TimeoutError:
                await self.kill()
                raise FileError("the sandbox did not answer about its files, and its Python was ended") from None

    async def _handed_over(self, request: dict[str, Any]) -> list[tuple[str, str, int, float]] | None:
        """All files, when that is what was asked for: no process is needed to list what the last one handed over."""
        if request["type"] != "file_list" or request["path"]:
            return None
        await self.kill()
        if self._ending is not None:
            await asyncio.shield(self._ending)
        return None if self._files is None else listing(self._files)

    async def _end_python(self) -> Exit:
        """End a Python that gave no answer; how it ended."""
        await self.kill()
        return await self._exit_facts()

    async def _exit_facts(self) -> Exit:
        runner, exchange = self._runner, self._exchange
        if runner is None or exchange is None:
            return Exit(broken="it was closed")
        if exchange.code is not None:  # it ended by itself; what ends the process then is us
            facts = Exit(code=exchange.code)
        elif runner.exit.done():
            facts = runner.exit.result()
        else:
            facts = Exit(signal=signal.SIGKILL)  # by our own hand: its process only hands over the files
        if facts.code is not None and 0 < facts.code - exits.SIGNAL_BASE <= LAST_SIGNAL:  # WebAssembly has no other way
            facts = replace(facts, code=None, signal=facts.code - exits.SIGNAL_BASE)
        return replace(facts, broken=exchange.broken or facts.broken)


def _added(before: Sample, now: Sample) -> Sample:
    return Sample(before.cpu_s + now.cpu_s, max(before.peak_memory_bytes, now.peak_memory_bytes))
