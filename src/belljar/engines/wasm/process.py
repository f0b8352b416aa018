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
from belljar.engines.base import Event, Exit, KernelExited, Sample, Spec
from belljar.engines.setup import VARIABLES
from belljar.engines.transport.seat import ASK_TIMEOUT_S, START_TIMEOUT_S, Seat
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
from belljar.errors import SandboxClosed, StartFailed
from belljar.packages.environment import Environment

if TYPE_CHECKING:
    from belljar.egress.server import Egress

Launch = Callable[[Spec, OnOutput], Awaitable[Runner]]

MOST_CONNECTIONS = 64  # to allowed hosts, at once: this process holds the bodies that are on their way
LAST_SIGNAL = 31
ENVIRONMENT = {**VARIABLES, "PATH": "/usr/bin:/bin"}


class WasmProcess(Seat[PythonExchange]):
    """A sandbox of the wasm engine."""

    start_timeout_s = START_TIMEOUT_S + HAND_BACK_TIMEOUT_S

    def __init__(self, launch: Launch, spec: Spec) -> None:
        super().__init__(spec, ENVIRONMENT, Network(spec.policy.network, MOST_CONNECTIONS))
        self._folders: Folders | None = None  # held from the start: they may be moved
        self._launch = launch
        self._runner: Runner | None = None
        self._leaving: Leaving | None = None
        self._ending: asyncio.Task[None] | None = None
        self._before = Sample(0.0, 0)  # what processes that were replaced had used
        self._files: list[Restore] | None = []  # for the next process, until it has them all; None when they are lost
        self._has_files = False  # whether the process that is there has them all

    @property
    def degraded(self) -> tuple[str, ...]:
        """The layers that are missing with the operator's leave."""
        return self._runner.degraded if self._runner else ()

    @property
    def is_up(self) -> bool:
        """Whether there is a process with all files."""
        return super().is_up and self._has_files and self._runner is not None and not self._runner.exit.done()

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code; there are no other processes."""
        if self.kernel is not None:
            self.kernel.send({"type": "interrupt"})

    async def kill(self) -> None:
        """End Python, whatever it is doing. Its process lives a moment longer, to hand over the files."""
        if self._runner is not None and self.closing is not None:  # nothing is left to hand them to
            await self._runner.kill()
        elif self._runner is not None and self.kernel is not None:
            await asyncio.wait((self._end(self._runner, self.kernel).ended,))

    def fits(self, spec: Spec) -> bool:
        """Whether `reconfigure` can give it this spec. Memory and disk cannot change after the start."""
        before = self.spec.limits
        fixed = replace(spec.limits, timeout_s=before.timeout_s, output_mb=before.output_mb)
        return not spec.policy.mounts and fixed == before

    async def reconfigure(self, spec: Spec) -> None:
        """Take other variables and allowed hosts than those it was made with.

        Raises:
            InvalidRequest: for an entry of `Policy.network` that has no clear meaning.
            StartFailed: when the kernel ended meanwhile, or did not answer in time and was ended.
        """
        before, self.spec = self.spec, spec
        if spec.policy.network:
            self.network = Network(spec.policy.network, MOST_CONNECTIONS)
        if spec.env or spec.policy.network or spec.limits != before.limits:
            await self.configure()
        if spec.policy.network:
            await self.network.egress()

    def sample(self) -> Sample:
        """Processor time so far and the most memory there was."""
        return _added(self._before, self._runner.sample()) if self._runner else self._before

    def memory_bytes(self) -> int:
        """The memory that it has now."""
        return self._runner.memory_bytes() if self._runner else 0

    async def tear_down(self) -> None:
        """Let go of the process and of the mounted folders."""
        await self._drop()
        if self._folders is not None:
            self._folders.close()

    async def _way_out(self) -> Egress:
        """The proxy of the network that the sandbox has when a request is made."""
        return await self.network.egress()

    async def _start(self) -> None:
        exchange = self.kernel = PythonExchange()
        self._leaving, self._has_files = None, False
        runner = self._runner = await self._launch(self.spec, self._take)
        exchange.connect(runner)
        runner.exit.add_done_callback(lambda _: exchange.end(None))
        if not await exchange.came_up():
            await runner.kill()  # all that it wrote has been read then
            said = runner.said() or exchange.broken or "it ended"
            raise StartFailed(f"the WebAssembly sandbox did not come up: {said}")
        exchange.ended.add_done_callback(lambda _: self._on_end(runner, exchange))
        replies = Replies(exchange.send_frame)
        mounts = Mounts(self._folders.again(), replies) if self._folders is not None else None
        builtins = Builtins(Fetches(self._way_out, replies), mounts)
        exchange.on_builtin = builtins.take
        exchange.ended.add_done_callback(lambda _: builtins.end())
        if self.spec.environment.layer is not None:
            await self.show(self.spec.environment)
        runner.settle()

    async def bring_up(self) -> None:
        """A process, with the files of the last one."""
        if self._folders is None and (mounts := self.spec.policy.mounts):
            self._folders = await asyncio.to_thread(Folders, [fspath(folder) for folder in mounts.values()])
        await self._start_anew()
        try:
            async with asyncio.timeout(HAND_BACK_TIMEOUT_S):
                kept = await self._hand_back()
        except TimeoutError:  # there may be too many, or they came from code that made them so
            self._files, kept = None, False
            if self._runner is not None:
                await self._runner.kill()
            await self._start_anew()
        self._files, self._has_files, self.are_files_kept = [], True, kept

    async def _hand_back(self) -> bool:
        """Give the files to the process that is there; False when not all are."""
        kept = self._files is not None
        for restore in in_order(self._files or []):
            kept = (await self.exchange(restore)).get("failure") is None and kept
        return kept

    async def _start_anew(self) -> None:
        await self.kill()
        if self._ending is not None:
            await asyncio.shield(self._ending)
        await self._drop()
        if self.closing is not None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        await self._start()

    def _on_end(self, runner: Runner, exchange: PythonExchange) -> None:
        """Python ended, or broke the protocol, with or without a Request open."""
        if runner is self._runner and self.closing is None:
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
        if self.kernel is not None:
            self.kernel.end(None)

    async def show(self, environment: Environment) -> None:
        """Mount the packages of a layer; they go in as bytes, since the process can read no file any more.

        Raises:
            StartFailed: when they cannot be shown; a process that does not even answer is ended.
        """
        try:
            for request in layer_requests(environment.layer):
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    answer = await self.exchange(request)
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
        elif self.kernel is not None:
            self.kernel.take(data)

    async def answer_without_kernel(self, request: dict[str, Any]) -> Event | None:
        """All files, when that is what was asked for: no process is needed to list what the last one handed over."""
        if request["type"] != "file_list" or request["path"] or self.closing is not None:
            return None
        await self.kill()
        if self._ending is not None:
            await asyncio.shield(self._ending)
        return None if self._files is None else {"entries": listing(self._files)}

    async def exit_facts(self) -> Exit:
        """How Python ended: by itself, with its process, or by our hand."""
        runner, exchange = self._runner, self.kernel
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
