"""One live sandbox: its runs one at a time, its deadline, and what happens when its kernel ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from belljar.engines import exits
from belljar.engines.base import Engine, Event, KernelExited, KernelProcess, OnEvent, Spec, Workspace, ignore
from belljar.errors import HostBusy, SandboxClosed, SandboxError
from belljar.execution import Execution, State
from belljar.host import recorder
from belljar.host.conclusion import Ending, conclude
from belljar.host.guardian import Guardian, Unguarded
from belljar.host.run import Run
from belljar.host.sandbox_packages import SandboxPackages
from belljar.host.shared import Shared
from belljar.host.stop import GRACE_S, climb
from belljar.packages.environment import Environment
from belljar.packages.installer import Installer
from belljar.service.base import Reply, RunRequest
from belljar.store.base import SandboxRecord
from belljar.validation import check_reply

_MODULE = re.compile(r"No module named '([^']{1,200})'")


class Session:
    """A sandbox between its start and its end. Only its own methods change its fields."""

    def __init__(
        self,
        record: SandboxRecord,
        engine: Engine,
        installer: Installer,
        spec: Spec,
        process: KernelProcess,
        shared: Shared,
        guardian: Guardian | None = None,
        tools: tuple[str, ...] = (),
    ) -> None:
        self.record = record
        self.tools = tools  # the names that its code may call
        self.engine = engine
        self.spec = spec
        self.process = process
        self.guardian = guardian or Unguarded()
        self.closed = False
        self.last_used = shared.now()  # when it started, or when the last act ended
        self.users = 0  # acts that have begun with this session, and not ended
        self.count = 0  # runs since the last reset
        self.origin: str | None = None  # the id of the checkpoint that the next one comes after
        self.are_files_lost = False  # until a checkpoint has brought them back, or an Execution has said so
        self.shared = shared
        self.installer = installer
        self._closed_because: str | None = None
        self._callers = 0
        self._turn = asyncio.Lock()
        self._is_whole = True  # no restore failed in its Python
        self._lost: str | None = None  # why the last kernel ended
        self._found: tuple[State, str] | None = None  # what the next Execution says of the state that it found
        self._without: str | None = None  # what a live fork does not have of its parent
        self._run: Run | None = None  # the one that is on
        self._call_ids = count(1)
        self._packages = SandboxPackages(self, installer, shared.sources, shared.failed_imports, engine.name)

    @property
    def id(self) -> str:
        """The id of the sandbox."""
        return self.record.id

    @property
    def owner(self) -> str:
        """Whose sandbox it is."""
        return self.record.owner

    @property
    def turn(self) -> asyncio.Lock:
        """The caller holds it while it asks the kernel something."""
        return self._turn

    @property
    def workspace(self) -> Workspace:
        """Its files."""
        return self.process.workspace

    @property
    def is_untouched(self) -> bool:
        """Whether no code has run in it, so that another Python may take the place of this one."""
        return self.count == 0

    @property
    def has_state(self) -> bool:
        """Whether its Python lives, and has what the runs so far left."""
        return not self.closed and self.process.alive and self._is_whole

    @contextmanager
    def in_use(self, changes: bool = True) -> Iterator[Session]:
        """Keep it awake while an act is on; afterwards its guardian hears whether the act may have changed it."""
        self.users += 1
        try:
            yield self
        finally:
            self.users -= 1
            self.last_used = self.shared.now()
            self.guardian.used(changes)

    async def run(self, request: RunRequest, on_event: recorder.OnEvent | None = None) -> Execution:
        """Run code when its turn comes.

        Raises:
            HostBusy: when the queue is full.
            SandboxError: when Belljar failed.
        """
        most = self.shared.max_queue
        if self._callers > most:
            raise HostBusy(f"{most} runs wait for this sandbox already, and it does one at a time; try later")
        self._callers += 1
        try:
            async with self._turn:
                await self.guardian.before_run()
                execution, is_refused = await self._begin(request)
                if not is_refused:
                    run = self._run = Run(request, execution, self.process, self.spec, self.shared.overflow)
                    try:
                        await run.execute(self.tools, self._call_ids, on_event)
                        self.check_open()
                        await run.conclude(self.guardian.outlook)
                    finally:
                        self._run = None
                        run.forget()
                    await self._end(run)
        finally:
            self._callers -= 1
        self.shared.journal.ran(execution)
        await self.guardian.after_run(request, execution)
        return execution

    async def install(self, requirements: Sequence[str]) -> list[str]:
        """Add packages and keep everything else; `name==version` of what was asked for and of what it needs.

        Raises:
            PackageError: with the reason; the sandbox is as it was.
        """
        async with self._turn:
            await self._revive()
            return await self._packages.add(requirements)

    def answer_call(self, reply: Reply) -> None:
        """Send the answer to a call of the run that is on. A reply that no call waits for is dropped.

        Raises:
            InvalidRequest: when it is not plain JSON data of a size that can be sent; the call waits on.
        """
        check_reply(reply.value, reply.error)
        if self._run is not None and self._run.calls is not None:
            self._run.calls.reply(reply)

    async def interrupt(self) -> None:
        """Stop the code that runs now, if any; its Execution says `cancelled`."""
        if self._run is not None:
            await self._run.interrupt()

    async def reset(self) -> None:
        """Forget every variable; the workspace stays."""
        async with self._turn:
            self.check_open()
            await self.renew()
            self.count, self._lost, self._without, self._found = 0, None, None, None
            lost, self.are_files_lost = self.are_files_lost, False
            if lost:
                self._found = ("reset", "a fresh Python was started, as asked, but the files are lost")

    async def start_over(self) -> bool:
        """Start a fresh Python when the last ended before any code ran in it. The caller holds the turn.

        Returns:
            False when the files are lost.
        """
        self.check_open()
        self._lost = None
        return await self.renew()

    async def ask(self, request: dict[str, Any]) -> Event:
        """Send a Request beside runs, to a fresh Python when the last one ended."""
        async with self._turn:
            await self._revive()
            return await self.ask_now(request)

    async def ask_live(self, request: dict[str, Any], on_event: OnEvent, timeout_s: float) -> Event:
        """Send a Request about what is in this very Python.

        Raises:
            SandboxError: when it has ended, or did not answer.
        """
        async with self._turn:
            self.check_live()
            return await self.ask_now(request, timeout_s, on_event)

    async def ask_now(self, request: dict[str, Any], seconds: float | None = None, on_event: OnEvent = ignore) -> Event:
        """Send a Request. The caller holds the turn.

        Raises:
            SandboxClosed: when the sandbox was closed meanwhile.
            SandboxError: when the Python ended, or did not answer in time.
        """
        try:
            async with asyncio.timeout(seconds or self.spec.limits.timeout_s):
                return await self.process.request(request, on_event)
        except KernelExited as ended:
            self.check_open()
            self._lost = exits.explain(ended.exit, self.spec.limits)[1].value
            raise SandboxError(f"the sandbox's Python ended while it was asked: {self._lost}") from None
        except TimeoutError:
            await asyncio.shield(climb(self.process))
            raise SandboxError("the sandbox did not answer in time; try again, or reset it") from None
        except asyncio.CancelledError:
            await asyncio.shield(climb(self.process))
            raise

    def check_open(self) -> None:
        """Refuse to use a sandbox that was closed.

        Raises:
            SandboxClosed: with the reason.
        """
        if self.closed:
            why = f": {self._closed_because}" if self._closed_because else ""
            raise SandboxClosed(f"this sandbox was closed{why}; make a new one")

    def check_live(self) -> None:
        """Refuse to speak about a Python that has ended.

        Raises:
            SandboxError: when it has.
        """
        self.check_open()
        if not self.has_state:
            raise SandboxError("the sandbox's Python has ended, and its variables with it: there is no state")

    async def adopt(self, environment: Environment) -> None:
        """Import from this environment from now on.

        Raises:
            StartFailed: when the packages cannot be shown.
        """
        await self.process.provide(environment)
        self.spec = replace(self.spec, environment=environment)

    def continue_from(self, count: int, origin: str | None, news: str, state: State = "restored") -> None:
        """Count on from a state that was loaded into it; the next Execution says so."""
        self.count, self.origin, self._found = count, origin, (state, news)

    def note_checkpoint(self, origin: str | None) -> None:
        """The next checkpoint comes after this one."""
        self.origin = origin

    def note_files(self, are_lost: bool) -> None:
        """Whether the files that it had are gone."""
        self.are_files_lost = are_lost

    def note_broken_restore(self) -> None:
        """A restore failed in its Python and left a part of the state there: the next use starts a fresh one."""
        self._is_whole = False

    def forked(self, record: SandboxRecord, spec: Spec, process: KernelProcess, without: str) -> Session:
        """The session of a live fork of this one; `without` names what the fork does not have."""
        fork = Session(record, self.engine, self.installer, spec, process, self.shared, tools=self.tools)
        fork.count, fork.origin, fork._without = self.count, self.origin, without or None
        return fork

    def note_lost(self, exit_reason: str) -> None:
        """Its Python ended outside a run, for this reason."""
        self._lost = exit_reason

    async def finish_abandoned_request(self) -> None:
        """Wait until the kernel has answered a Request that was given up, or stop it. The caller holds the turn."""
        try:
            await asyncio.wait_for(self.process.idle(), GRACE_S)
        except TimeoutError:
            await asyncio.shield(climb(self.process))

    def usage(self) -> dict[str, Any]:
        """What it uses now, as plain data."""
        return {
            "engine": self.engine.name,
            "is_busy": self._turn.locked(),
            "waiting": max(0, self._callers - 1),
            "runs": self.count,
            "cpu_s": self.process.sample().cpu_s,
            "memory_bytes": self.process.memory_bytes(),
        }

    async def close(self, reason: str | None = None) -> None:
        """End the sandbox. Idempotent."""
        self.closed, self._closed_because = True, self._closed_because or reason
        await self.process.close()

    async def renew(self) -> bool:
        """Start a fresh kernel. Returns False when the files are lost.

        Raises:
            StartFailed: when it did not come up; the next use tries again.
        """
        self._is_whole = False
        kept = await self.process.restart()
        self.are_files_lost = self.are_files_lost or not kept
        self._is_whole = True
        return kept

    async def _begin(self, request: RunRequest) -> tuple[Execution, bool]:
        """Have a kernel, files and packages there for a run. Returns its Execution, and whether it may not run."""
        state, reason = await self._revive()
        for path, data in request.files.items():
            await self.process.workspace.write(path, data)
        installed, refusal = await self._packages.for_run(request)
        self.count += 1
        execution = Execution(
            execution_count=self.count,
            state=state,
            state_reason=reason,
            degraded=list(self.process.degraded),
            engine=self.engine.name,
            sandbox_id=self.id,
            packages_installed=installed,
        )
        if refusal is not None:
            conclude(execution, Ending(not_run=refusal), self.spec.limits, 0)
        return execution, refusal is not None

    async def _end(self, run: Run) -> None:
        """Remember what the next run has to know, and explain an import that failed."""
        error = run.execution.error
        self._lost = run.lost or self._lost
        if error is not None and error.code == "MODULE_NOT_FOUND":
            named = _MODULE.search(error.value)
            error.hint = await self._packages.explain(named[1] if named else "")
        self._found = self._without = None

    async def _revive(self) -> tuple[State, str | None]:
        """Make sure that a kernel is there. Returns the state that the next run finds, and why it is not `kept`."""
        self.check_open()
        if self.process.alive and self._is_whole:
            if self._found is not None:
                return self._found
            return "kept", self._without and f"a fork has no threads or connections: without {self._without}"
        reason = self._lost or "the sandbox's Python had ended"
        await self.renew()
        if (restored := await self.guardian.recover()) is not None:
            found: tuple[State, str] = ("restored", f"{restored}: {reason}")
        else:
            lost, self.are_files_lost = self.are_files_lost, False
            found = ("reset", f"a fresh Python was started{', and the files are lost' if lost else ''}: {reason}")
        self._lost, self._found = None, found
        return found
