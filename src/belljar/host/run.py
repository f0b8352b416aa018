"""One run of code in a sandbox: from its Request to everything that its Execution says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from belljar.engines.base import KernelExited, KernelProcess, Sample, Spec
from belljar.errors import SandboxError
from belljar.execution import Execution, Usage
from belljar.host import recorder
from belljar.host.budget import Budget
from belljar.host.calls import Calls
from belljar.host.conclusion import Ending, conclude, found_files
from belljar.host.overflow import Overflow
from belljar.host.recorder import Recorder
from belljar.host.stop import Stop
from belljar.service.base import RunRequest
from belljar_kernel.files import is_told

MAX_ENTRIES = 10_000
CLOCK_STEP_S = 0.01  # the clock that stamps files advances in steps


class Run:
    """Has a kernel run code, within its time, and writes down what comes of it. The session holds its turn."""

    def __init__(
        self, request: RunRequest, execution: Execution, process: KernelProcess, spec: Spec, budget: Budget
    ) -> None:
        self.execution = execution
        self._request = request
        self._process = process
        self._limits = spec.limits
        self._timeout_s = spec.limits.timeout_s if request.timeout_s is None else request.timeout_s
        self._stop = Stop(process)
        self._overflow = Overflow(spec.limits.disk_mb, budget)
        self._calls: Calls | None = None
        self._ending = Ending()
        self._began = 0.0

    @property
    def calls(self) -> Calls | None:
        """The calls out of it, while it is on."""
        return self._calls

    @property
    def lost(self) -> str | None:
        """Why the kernel has ended, if it has."""
        error = self.execution.error
        return error.value if self._ending.exit is not None and error is not None else None

    async def interrupt(self) -> None:
        """Stop the code; returns when it has stopped. What it left running stays once it has ended by itself."""
        if self._calls is not None:
            await asyncio.shield(self._stop.begin("caller"))

    async def execute(self, tools: tuple[str, ...], call_ids: Iterator[int], on_event: recorder.OnEvent | None) -> None:
        """Send the code, and collect what it prints, shows and calls until it has ended. `forget` must follow."""
        process, execution, stop = self._process, self.execution, self._stop
        calls = self._calls = Calls(tools, call_ids, execution, process.send, on_event)
        output_bytes = int(self._limits.output_mb * (1 << 20))
        record = Recorder(execution, output_bytes, self._overflow, on_event, process.network.note_event, calls.take)
        before = process.sample()
        started, self._began = time.perf_counter(), time.time()
        deadline = asyncio.get_running_loop().call_later(self._timeout_s, stop.begin, "deadline")
        try:
            done = await process.request(_question(self._request, execution), record)
            self._ending = Ending(done, None, stop.by)
        except KernelExited as ended:
            self._ending = Ending(None, ended.exit, stop.by)
        except asyncio.CancelledError:
            await self.interrupt()
            raise
        finally:
            deadline.cancel()
            self._calls = None
            calls.end()
            await stop.settled()
        execution.denials = process.network.take_denials()
        execution.usage = _usage(before, process.sample(), time.perf_counter() - started)

    async def conclude(self, outlook: Callable[[], Awaitable[str | None]]) -> None:
        """Say how the code ended. `outlook` says what the next run continues from, when the kernel has ended."""
        if self._ending.exit is not None:
            self._ending = replace(self._ending, outlook=await outlook())
        conclude(self.execution, self._ending, self._limits, self._timeout_s)
        if not self._process.alive:
            await self._find_files()
        await self._overflow.keep(self.execution, self._process.workspace)

    def forget(self) -> None:
        """Give back what is held for it. Idempotent."""
        self._overflow.forget()

    async def _find_files(self) -> None:
        """Name the files that the code left whose Python has ended, without those it was given before."""
        given, began = self._request.files, self._began
        with contextlib.suppress(SandboxError):
            listing = await self._process.workspace.list("", MAX_ENTRIES)
            since = {False: began - CLOCK_STEP_S, True: began}
            changed = [entry for entry in listing if entry.modified >= since[entry.path in given]]
            self.execution.files = found_files([entry for entry in changed if is_told(entry.path)])


def _question(request: RunRequest, execution: Execution) -> dict[str, object]:
    question: dict[str, object] = {
        "type": "run",
        "code": request.code,
        "count": execution.execution_count,
        "stdin": request.stdin,
        "env": dict(request.env),
        "cwd": request.cwd,
    }
    return {**question, "args": request.args[0]} if request.args else question


def _usage(before: Sample, after: Sample, wall_s: float) -> Usage:
    return Usage(wall_s, after.cpu_s - before.cpu_s, after.peak_memory_bytes)
