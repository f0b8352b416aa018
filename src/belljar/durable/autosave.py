"""Saves a durable sandbox after its runs, and restores it after its Python has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from belljar.durable import saving
from belljar.durable.history import run_record
from belljar.durable.ledger import Ledger
from belljar.errors import CheckpointRefused, SandboxError, StoreFailed
from belljar.execution import Execution
from belljar.host.session import Session
from belljar.packages.environment import Environment
from belljar.service.base import RunRequest
from belljar.state.envelope import unseal
from belljar.store.base import CheckpointRecord, SandboxRecord, Store

SAVE_AFTER_S = 0.05  # runs that follow each other at once are saved together
PATIENCE_S, LEAST_PATIENCE_S = 60.0, 2.0
SLOW_DISK_S = 10.0
KEPT = 2  # checkpoints: the last, and one more in case its bytes are damaged
MOST_BACKLOG = 1000  # of a disk that is too slow for the history: the runs must not wait for it


class Autosaver:
    """The guardian of a durable sandbox while this host has it."""

    is_durable = True

    def __init__(self, ledger: Ledger, record: SandboxRecord, is_new: bool, on_idle: Callable[[], None]) -> None:
        self._ledger = ledger
        self.record = record
        self.is_new = is_new
        self.session: Session | None = None
        self.last: CheckpointRecord | None = None
        self._on_idle = on_idle  # an act has ended, so the sandbox may make room for another
        self._nothing = ""  # why the last load found no checkpoint
        self._patience_s = PATIENCE_S
        self._is_changed = False
        self._hurry = asyncio.Event()
        self._is_due = False  # a save was begun that has not looked yet
        self._saves: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()

    async def attach(self, session: Session, notes: Sequence[str] = ()) -> None:
        """Give a fresh session the last saved state, and watch it from now on.

        Raises:
            SandboxError: when its Python ended on the way.
        """
        self.session = session
        if self.is_new:
            self.changed()  # it may have files from the beginning
            return
        why = "; ".join([self.record.reason or "it was asleep", *notes])
        async with session.turn:
            session.check_live()
            restored = await self._load(session, with_files=True)
        count = self.last.count if self.last else 0
        news = f"{restored or f'{self._nothing}, so it starts anew'}: {why}"
        session.continue_from(count, session.origin, news, "restored" if restored else "reset")
        self._ledger.journal.tell("restored" if restored else "reset", self.record.id, why=why)

    async def recover(self) -> str | None:
        """Load the last state into a fresh Python, with the files if they are lost. The session holds its turn.

        Returns what was restored, in words. None when there is nothing to restore, or it ended the Python again.

        Raises:
            StoreFailed: when it cannot be read now; the next run tries again.
        """
        session = self.session
        assert session is not None
        try:
            restored = await self._load(session, with_files=session.are_files_lost)
        except BaseException as failure:
            session.note_broken_restore()
            if isinstance(failure, StoreFailed) or not isinstance(failure, SandboxError):
                raise
            self._ledger.journal.warn("restore_failed", self.record.id, failure)
            await session.renew()
            return None
        if restored is not None:
            self._ledger.journal.tell("restored", self.record.id, why="its Python ended")
        return restored

    @property
    def is_saved(self) -> bool:
        """Whether there is nothing that is still to be saved."""
        return not (self._is_changed or self._saves or self._writes)

    def changed(self) -> None:
        """Something may be different: save it soon, in the background."""
        self._is_changed = True
        if not self._is_due:
            self._is_due = True
            task = asyncio.get_running_loop().create_task(self._save_soon())
            self._saves.add(task)
            task.add_done_callback(self._saves.discard)

    def used(self, changes: bool) -> None:
        """An act on the sandbox has ended, and may have changed it."""
        if self.session is None:  # it is still being started
            return
        if changes:
            self.changed()
        self._on_idle()

    async def after_run(self, request: RunRequest, execution: Execution) -> None:
        """Write a run into the history, and wait until the state that it began with is on the disk."""
        self._write_history(request, execution)
        await self.written()

    async def outlook(self) -> str | None:
        """What the next run will continue from, once that is on the disk."""
        await self.written()
        return None if self.last is None else f"the next run continues from the state after run {self.last.count}"

    def _write_history(self, request: RunRequest, execution: Execution) -> None:
        """Begin to write a run into the history."""
        record = run_record(request, execution, self._ledger.now())
        journal, keep = self._ledger.journal, self._ledger.settings.history_runs

        def write(store: Store) -> None:
            try:
                store.add_run(record, keep)
            except StoreFailed as failure:
                journal.warn("history_failed", record.sandbox_id, failure)

        if self._ledger.store.backlog > MOST_BACKLOG:
            journal.tell("history_dropped", record.sandbox_id)
        elif keep:
            with contextlib.suppress(StoreFailed):  # the host is being closed
                self._ledger.store.begin(write)

    async def before_run(self) -> None:
        """Get the state that earlier runs left out of the sandbox. The session holds its turn.

        The end of the run waits until that state is on the disk, so that only one state at a time is on its way there.
        """
        if not await self.written():
            return  # the disk is too slow for the runs; it is saved with what comes next
        try:
            taken = await self._take()
        except SandboxError as failure:
            self._tell_failure(failure)
            return
        if taken is not None:
            self._begin_write(taken).add_done_callback(self._tell_end)

    async def written(self) -> bool:
        """Wait until the states that have left the sandbox are on the disk, for a bounded time; whether they are.

        A caller that gets the end of a run may rely on the state before that run.
        """
        if self._writes:
            await asyncio.wait(self._writes, timeout=SLOW_DISK_S)
        return not self._writes

    async def settle(self) -> None:
        """Return when everything is saved that can be.

        Raises:
            SandboxError: when the last of it could not be.
        """
        self._hurry.set()
        while self._saves or self._writes:
            await asyncio.wait(self._saves | self._writes)
        if self._is_changed:
            await self._save()

    def stop(self) -> None:
        """Save no more: the sandbox is being closed for good."""
        self._is_changed = False
        self._hurry.set()

    async def close(self, reason: str | None) -> None:
        """End the sandbox for good in the store."""
        await self._ledger.close_record(self.record, reason)

    async def _save_soon(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), SAVE_AFTER_S)
        self._is_due = False
        try:
            await self._save()
        except SandboxError as failure:
            self._tell_failure(failure)

    async def _save(self) -> None:
        assert self.session is not None
        async with self.session.turn:
            taken = await self._take()
        if taken is not None:
            await asyncio.shield(self._begin_write(taken))

    async def _take(self) -> saving.Taken | None:
        """What has changed since the last time; None when nothing has, or there is no Python that has it.

        A run waits for this, so a state that does not leave in time gets less time at the next attempt.
        """
        session, self._is_changed, was_changed = self.session, False, self._is_changed
        if not was_changed or session is None or not session.has_state:
            return None
        try:
            taken = await saving.take(session, self._ledger.settings.durable_mb << 20, self._patience_s)
        except BaseException:
            self._is_changed = True
            self._patience_s = max(LEAST_PATIENCE_S, self._patience_s / 2)
            raise
        self._patience_s = PATIENCE_S
        return taken

    async def _write(self, taken: saving.Taken) -> None:
        assert self.session is not None
        ledger, before = self._ledger, self.last
        packages = added_packages(self.session.spec.environment, self.session.shared.sources.origin)
        try:
            self.last = await ledger.store.call(lambda store: self._add(store, taken, packages))
        except BaseException:
            self._is_changed = True
            raise
        event = "unchanged" if before is not None and before.id == self.last.id else "checkpoint"
        ledger.journal.tell(event, self.record.id, after_run=self.last.count, bytes=self.last.size)

    def _tell_failure(self, failure: SandboxError) -> None:
        if self.session is not None and self.session.process.alive:  # else the next run reports that it ended
            self._ledger.journal.warn("checkpoint_failed", self.record.id, failure)

    def _begin_write(self, taken: saving.Taken) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._write(taken))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task

    def _tell_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(failure := task.exception(), SandboxError):
            self._tell_failure(failure)

    def _add(self, store: Store, taken: saving.Taken, packages: tuple[str, ...]) -> CheckpointRecord:
        """Seal a state and add it to the store. Runs in the store's thread, since it takes long."""
        assert self.session is not None
        self._ledger.check_owned(store.sandbox(self.record.id))
        store.update_sandbox(self.record.id, self.session.last_used, packages)
        content = taken.content()
        if self.last is not None and self.last.content == content:
            store.confirm_checkpoint(self.last.id, taken.count)
            return replace(self.last, count=taken.count)
        sealed = taken.seal(self._ledger.key, None, self.record.owner)
        skipped = dict(list(taken.skipped.items())[:100])
        record = CheckpointRecord(sealed.id, self.record.id, sealed.created, taken.count, sealed.size, content, skipped)
        store.add_checkpoint(record, sealed.to_bytes(), KEPT)
        return record

    async def _load(self, session: Session, with_files: bool) -> str | None:
        """Send in the newest checkpoint that can be read; in words, or None without one. The caller holds the turn."""
        ledger, damaged = self._ledger, ""
        for record in await ledger.store.call(lambda store: store.checkpoints(self.record.id)):

            def read(store: Store, record: CheckpointRecord = record) -> Any:
                return unseal(store.read_checkpoint(record), ledger.keys, self.record.owner)

            try:
                opened = await ledger.store.call(read)
            except CheckpointRefused as failure:
                ledger.journal.warn("checkpoint_damaged", self.record.id, failure)
                damaged = damaged or f"; a newer one, after run {record.count}, was damaged"
                continue
            report = await saving.load(session, opened, with_files, PATIENCE_S, at_any_cost=True)
            self.last = record
            session.note_checkpoint(opened.header.get("parent"))
            files = {**opened.header["files_skipped"], **report.files_skipped} if with_files else report.files_skipped
            report = replace(report, skipped={**record.skipped, **report.skipped}, files_skipped=files)
            lacking = saving.without(report)
            return f"the state after run {record.count} was restored{lacking}{damaged}"
        self._nothing = "no checkpoint could be read" if damaged else "nothing had been saved"
        return None


def added_packages(environment: Environment, origin: Callable[[str], str]) -> tuple[str, ...]:
    """What an environment has beyond the preinstalled set: exact versions, and addresses, which no index knows."""
    ground, asked = set(environment.ground.packages), saving.requirements(environment, origin)
    added = [line for line in environment.packages if line not in ground]
    addresses = {name: text for name, text in zip(environment.requirements, asked, strict=True) if name != text}
    if not addresses:
        return tuple(added)
    from belljar.packages.requirements import name_of

    named = {name_of(name): text for name, text in addresses.items()}
    return tuple(named.get(name_of(line), line) for line in added)
