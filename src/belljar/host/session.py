"""One live sandbox: its runs one at a time, its deadline, and what happens when its kernel ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from belljar.engines import exits
from belljar.engines.base import Engine, Event, KernelExited, KernelProcess, OnEvent, Spec, ignore
from belljar.errors import HostBusy, PackageError, SandboxClosed, SandboxError
from belljar.execution import Execution, ExecutionError, State, Usage
from belljar.host.network import Network
from belljar.host.overflow import Overflow
from belljar.host.recorder import RESULTS_BYTES, Recorder
from belljar.host.stop import GRACE_S, Stop, climb
from belljar.host.supply import Supply
from belljar.host.text import plain
from belljar.packages.environment import Environment
from belljar_kernel.files import is_told

if TYPE_CHECKING:
    from belljar.host.journal import Journal
    from belljar.host.life import Life

_MODULE = re.compile(r"No module named '([^']{1,200})'")
Built = Callable[[Environment, Sequence[str]], Awaitable[list[str]]]  # requirements whose addresses are files here

MAX_ENTRIES = 10_000
MAX_LEFT = 200
CLOCK_STEP_S = 0.01  # the clock that stamps files goes in steps
DATA_SHARE = 0.9  # of the memory limit: a MemoryError that keeps the state comes before the kill that does not


@dataclass(frozen=True)
class Run:
    """One request to run code, already checked."""

    code: str
    timeout_s: float
    stdin: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    args: tuple[Any, ...] = ()  # empty, or the one value
    files: Mapping[str, bytes] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    cwd: str | None = None


class Session:
    """A sandbox between its creation and its close."""

    def __init__(self, engine: Engine, spec: Spec, process: KernelProcess, network: Network, built: Built) -> None:
        self.engine_name = engine.name
        self.engine = engine
        self.spec = spec
        self.process = process
        self.built = built
        self.network = network
        self.closed = False
        self.closed_because: str | None = None
        self.is_asleep = False  # closed, and kept: its next use makes another session of it
        self.users = 0  # acts that have begun with this session
        self.life: Life | None = None  # of a durable sandbox
        self.journal: Journal | None = None
        self.max_queue = 1000
        self.has_place = False  # of those that its host has
        self._callers = 0
        self._turn = asyncio.Lock()
        self.count = 0
        self._lost: str | None = None
        self._news: str | None = None  # that the Python is a new one: kept until an Execution has told it
        self.origin: str | None = None  # the id of the checkpoint that was last made of it, or that it comes from
        self.restored: str | None = None  # the same, of one that was given a checkpoint
        self._left_behind: str | None = None  # what a live fork does not have of its parent, until it was told
        self.is_set_up = False
        self.are_files_lost = False  # until a checkpoint has brought them back, or somebody was told
        self._stop: Stop | None = None  # of the run that is on
        self._supply = Supply(self)

    @property
    def turn(self) -> asyncio.Lock:
        """Held by whoever asks something of its Python."""
        return self._turn

    @property
    def is_untouched(self) -> bool:
        """Whether no code has run in it, so that another Python may take the place of this one."""
        return self.count == 0

    async def configure(self) -> None:
        """Give a fresh kernel its environment and limits."""
        try:
            await self.process.request(configuration(self.process, self.spec, warm=False), ignore)
        except KernelExited as ended:
            raise exits.in_set_up(ended.exit, self.spec.limits) from None
        self.is_set_up = True

    async def accept(self, run: Run, on_event: OnEvent | None = None) -> Execution:
        """run(), unless too many wait for that; told to those who want to know.

        Raises:
            HostBusy: when the queue is full.
        """
        if self._callers > self.max_queue:
            raise HostBusy(f"{self.max_queue} runs wait for this sandbox already, and it does one at a time; try later")
        self._callers += 1
        try:
            execution = await self.run(run, on_event)
        finally:
            self._callers -= 1
        if self.journal is not None:
            self.journal.ran(execution)
        if self.life is not None:
            self.life.ran(run, execution)
            await self.life.written()
        return execution

    async def run(self, run: Run, on_event: OnEvent | None = None) -> Execution:
        """Run code when its turn comes, and tell what it did."""
        async with self._turn:
            if self.life is not None:
                await self.life.save_first()
            state, reason = await self._revive()
            for path, data in run.files.items():
                await self.process.workspace.write(path, data)
            installed, failure = await self._supply_for(run)
            self.count += 1
            execution = Execution(
                execution_count=self.count,
                state=state,
                state_reason=reason,
                degraded=list(self.process.degraded),
                engine=self.engine_name,
                sandbox_id=self.spec.id,
                packages_installed=installed,
            )
            if failure is not None:
                execution.status, execution.error, execution.exit_code = "error", failure, 1
                return execution
            overflow = Overflow(self.spec.limits.disk_mb)
            recorder = Recorder(execution, int(self.spec.limits.output_mb * (1 << 20)), overflow, on_event)
            try:
                await self._execute(run, execution, recorder)
                await overflow.keep(execution, self.process.workspace)
            finally:
                overflow.forget()
            await self._explain(execution)
            await self._promise(execution)
            self._news = self.restored = self._left_behind = None
            return execution

    async def install(self, requirements: Sequence[str]) -> list[str]:
        """Add packages and keep everything else; `name==version` of what was asked for and of what came along.

        Raises:
            PackageError: with the reason; the sandbox is as it was.
        """
        async with self._turn:
            await self._revive()
            return await self._supply.add(requirements)

    async def interrupt(self) -> None:
        """Stop the code that runs now, if any; its Execution says `cancelled`."""
        if self._stop is not None:
            await asyncio.shield(self._stop.begin("caller"))

    async def reset(self) -> None:
        """Forget every variable; the workspace stays."""
        async with self._turn:
            self._check_open()
            await self.renew()
            self.count, self._lost, self.restored, self._left_behind = 0, None, None, None
            lost, self.are_files_lost = self.are_files_lost, False
            self._news = "a fresh Python was started, as asked, but the files are lost" if lost else None

    async def start_over(self) -> bool:
        """For whoever has the turn: a fresh Python in the place of one that ended before any code ran in it.

        False when the files are lost.
        """
        self._check_open()
        self._lost = None
        return await self.renew()

    async def ask(self, request: dict[str, Any]) -> Event:
        """A Request beside runs, of a fresh Python when the last one ended."""
        async with self._turn:
            await self._revive()
            return await self._request(request, ignore, self.spec.limits.timeout_s)

    async def ask_live(self, request: dict[str, Any], on_event: OnEvent, timeout_s: float) -> Event:
        """A Request about what is in this very Python.

        Raises:
            SandboxError: when it has ended, or did not answer.
        """
        async with self._turn:
            self.check_live()
            return await self._request(request, on_event, timeout_s)

    def check_live(self) -> None:
        """Refuse to speak about a Python that has ended.

        Raises:
            SandboxError: when it has.
        """
        self._check_open()
        if not (self.process.alive and self.is_set_up):
            raise SandboxError("the sandbox's Python has ended, and its variables with it: there is no state")

    async def fork(self, specs: Sequence[Spec]) -> list[Session]:
        """Live copies of this sandbox in the state of one moment, or none at all.

        Raises:
            CannotFork: when it must be done through a checkpoint.
            SandboxError: when there is no state, or a copy did not come up.
        """
        made: list[Session] = []
        async with self._turn:
            self.check_live()
            try:
                for spec in specs:
                    fork = await self._forked(spec)
                    made.append(fork)
            except BaseException as failure:
                await asyncio.shield(asyncio.gather(*(each.close() for each in made), return_exceptions=True))
                await asyncio.shield(self._mind_unanswered())
                if isinstance(failure, KernelExited):
                    self._check_open()
                    self._lost = exits.explain(failure.exit, self.spec.limits)[1].value
                    raise SandboxError(f"the sandbox's Python ended while it was forked: {self._lost}") from None
                raise
        return made

    async def _forked(self, spec: Spec) -> Session:
        """One of them, with a way out of its own: the same list, and its denials are told by its own Executions."""
        network = Network(spec.policy, self.engine.most_connections)
        spec = replace(spec, egress=network.egress)
        try:
            process, left = await self.engine.fork(self.process, spec)
        except BaseException:
            await network.close()
            raise
        fork = Session(self.engine, spec, process, network, self.built)
        fork.is_set_up, fork.count, fork.origin = True, self.count, self.origin
        fork._left_behind = ", ".join(plain(row, MAX_LEFT) for row in left) or None
        return fork

    async def _mind_unanswered(self) -> None:
        """Have a Request that was given up answered, or stopped, before the next."""
        try:
            await asyncio.wait_for(self.process.idle(), GRACE_S)
        except TimeoutError:
            await asyncio.shield(climb(self.process))

    def tell_start(self, is_restored: bool, text: str) -> None:
        """What the first Execution says about the state that it found."""
        self.restored, self._news = (text, None) if is_restored else (None, text)

    def usage(self) -> dict[str, Any]:
        """What it uses now, as plain data."""
        return {
            "engine": self.engine_name,
            "is_busy": self._turn.locked(),
            "waiting": max(0, self._callers - 1),
            "runs": self.count,
            "cpu_s": self.process.sample().cpu_s,
            "memory_bytes": self.process.memory_bytes(),
        }

    async def close(self) -> None:
        """End the sandbox. Idempotent."""
        self.closed = True
        try:
            await self.process.close()
        finally:
            await self.network.close()

    async def _execute(self, run: Run, execution: Execution, recorder: Recorder) -> None:
        loop = asyncio.get_running_loop()
        request = {"type": "run", "code": run.code, "count": self.count, "stdin": run.stdin, "env": dict(run.env),
                   "cwd": run.cwd}  # fmt: skip
        if run.args:
            request["args"] = run.args[0]
        before = self.process.sample()
        stop = self._stop = Stop(self.process, run.timeout_s)
        recorder.on_failure = lambda: stop.begin("listener")
        recorder.on_denial = self.network.note_event
        started, began = time.perf_counter(), time.time()
        deadline = loop.call_later(run.timeout_s, stop.begin, "deadline")
        try:
            done = await self.process.request(request, recorder)
        except KernelExited as ended:
            self._tell_end(ended, execution, stop)
        except asyncio.CancelledError:
            await asyncio.shield(stop.begin("caller"))
            raise
        else:
            recorder.finish(done)
            if stop.by == "deadline" or (stop.by is not None and done.get("interrupted") is True):
                stop.tell(execution, killed=False)
        finally:
            deadline.cancel()
            await stop.settled()
            self._stop = None
        execution.denials = self.network.take_denials()
        self._check_open()
        _raise_failure(recorder)
        after = self.process.sample()
        execution.usage = Usage(time.perf_counter() - started, after.cpu_s - before.cpu_s, after.peak_memory_bytes)
        if not self.process.alive:
            await self._find_files(recorder, run, began)

    async def _find_files(self, recorder: Recorder, run: Run, began: float) -> None:
        """The files that a run left whose Python cannot tell them any more, without those that it was given before."""
        with contextlib.suppress(SandboxError):
            listing = await self.process.workspace.list("", MAX_ENTRIES)
            since = {False: began - CLOCK_STEP_S, True: began}
            changed = [entry for entry in listing if entry.modified >= since[entry.path in run.files]]
            recorder.find_files([entry for entry in changed if is_told(entry.path)])

    async def _explain(self, execution: Execution) -> None:
        """What to do about an import that failed is known outside only."""
        error = execution.error
        if error is not None and error.code == "MODULE_NOT_FOUND":
            named = _MODULE.search(error.value)
            name = named[1] if named else ""
            reason = self._supply.reasons.get(name.partition(".")[0])
            error.hint = reason or await self.engine.explain_import(name, self.spec.environment, self.spec.policy)

    def _tell_end(self, ended: KernelExited, execution: Execution, stop: Stop) -> None:
        """The kernel is gone: by our own hand at the deadline or a cancel, or by itself."""
        if stop.by is not None:
            stop.tell(execution, killed=True)
        else:
            execution.status, execution.error, execution.exit_code = exits.explain(ended.exit, self.spec.limits)
        assert execution.error is not None
        self._lost = execution.error.value
        execution.state, execution.state_reason = "reset", self._lost

    async def _promise(self, execution: Execution) -> None:
        """What the run after the end of a durable sandbox's Python goes on from, once that is on the disk."""
        if self._lost is not None and self.life is not None:
            await self.life.written()
            if self.life.last is not None:
                told = f"{self._lost}; the next run goes on from the state after run {self.life.last.count}"
                execution.state, execution.state_reason = "restored", told

    async def _revive(self) -> tuple[State, str | None]:
        """Make sure that a kernel is there; ("reset", why) when it is a new one."""
        self._check_open()
        if self.process.alive and self.is_set_up:
            if self._news is not None:
                return "reset", self._news
            if self.restored is not None:
                return "restored", self.restored
            return "kept", self._left_behind and f"a fork has no threads or connections: without {self._left_behind}"
        reason = self._lost or "the sandbox's Python had ended"
        await self.renew()
        if self.life is not None and (told := await self.life.recover()) is not None:
            self._lost, self.restored = None, f"{told}: {reason}"
            return "restored", self.restored
        lost, self._lost, self.are_files_lost = self.are_files_lost, None, False
        self._news = f"a fresh Python was started{', and the files are lost' if lost else ''}: {reason}"
        return "reset", self._news

    async def renew(self) -> bool:
        """A fresh kernel, set up; one that was left half way is not used. False when the files are lost."""
        self.is_set_up = False
        kept = await self.process.restart()
        self.are_files_lost = self.are_files_lost or not kept
        await self.configure()
        return kept

    async def ask_now(self, request: dict[str, Any], seconds: float | None = None, on_event: OnEvent = ignore) -> Event:
        """A Request of whoever has the turn."""
        return await self._request(request, on_event, seconds or self.spec.limits.timeout_s)

    async def _request(self, request: dict[str, Any], on_event: OnEvent, timeout_s: float) -> Event:
        try:
            async with asyncio.timeout(timeout_s):
                return await self.process.request(request, on_event)
        except KernelExited as ended:
            self._lost = exits.explain(ended.exit, self.spec.limits)[1].value
            raise SandboxError(f"the sandbox's Python ended while it was asked: {self._lost}") from None
        except TimeoutError:
            await asyncio.shield(climb(self.process))
            raise SandboxError("the sandbox did not answer in time; try again, or reset it") from None
        except asyncio.CancelledError:
            await asyncio.shield(climb(self.process))
            raise

    async def _supply_for(self, run: Run) -> tuple[list[str], ExecutionError | None]:
        """What was installed for a run, and why it cannot be run when what it asked for could not be."""
        installed: list[str] = []
        if run.packages:
            try:
                installed = await self._supply.add(run.packages)
            except PackageError as failure:
                return [], ExecutionError("PackageError", str(failure), "", None, "PACKAGE_INSTALL_FAILED")
        return [*installed, *await self._supply.add_missing(run)], None

    def _check_open(self) -> None:
        if self.closed:
            why = f": {self.closed_because}" if self.closed_because else ""
            raise SandboxClosed(f"this sandbox was closed{why}; make a new one")


def configuration(process: KernelProcess, spec: Spec, warm: bool) -> dict[str, Any]:
    """The `configure` Request of a sandbox."""
    return {
        "type": "configure",
        "env": {**process.environment, **spec.env},
        "path": spec.environment.path,
        "data_bytes": int(spec.limits.memory_mb * (1 << 20) * DATA_SHARE),
        "results_bytes": RESULTS_BYTES,
        "network": list(spec.policy.network),
        "warm": process.rehearsals if warm else 0,
    }


def _raise_failure(recorder: Recorder) -> None:
    """What the caller's on_event raised; the run was stopped for it."""
    if isinstance(recorder.failure, Exception):
        raise recorder.failure
    if recorder.failure is not None:
        raise SandboxError(f"on_event raised {type(recorder.failure).__name__}") from recorder.failure
