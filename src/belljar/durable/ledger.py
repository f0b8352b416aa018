"""What a host has in the state folder: its lock, the store behind a thread, and the keys of checkpoints."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from belljar.durable.lock import GoneHost, pid_of
from belljar.errors import SandboxClosed, SandboxMissing, SandboxTaken, StoreFailed
from belljar.host.journal import Journal
from belljar.settings import Settings
from belljar.state.keys import known_keys, own_key
from belljar.store.base import SandboxRecord, Store
from belljar.store.thread import StoreThread

T = TypeVar("T")

ENDED = "its host ended without closing it"
CLOSE_S = 10.0
DAY_S = 86_400.0


class Lock(Protocol):
    """Held while a host lives. Its name says in the store which host has a sandbox."""

    name: str

    @property
    def address(self) -> tuple[Path, str] | None:
        """The folder and the name of the socket that its host listens at; None when it does not listen."""

    def note(self, pids: Iterable[int]) -> None:
        """Write down the processes that must not outlive this host."""

    def release(self) -> None:
        """Give it up, when the host has ended by itself. Idempotent."""

    def forget(self) -> None:
        """In a forked child: let go of what is the parent's, and leave it held."""


class Locks(Protocol):
    """The locks of all hosts that share a store."""

    def take(self) -> Lock:
        """Take a new lock.

        Raises:
            StoreFailed: when it cannot be taken.
        """

    def is_held(self, name: str) -> bool:
        """Whether the host of this name lives."""

    def gone(self) -> Iterator[GoneHost]:
        """Hosts that ended without releasing their locks, each reserved while the caller deals with it."""


class Ledger:
    """Reads and writes the records of durable sandboxes, in the name of a host."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        store: Store,
        locks: Locks,
        sweep_engines: Callable[[], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.journal = journal
        self.store = StoreThread(store)
        self.locks = locks
        self.now = now
        self.key = b""
        self.keys: dict[bytes, bytes] = {}
        self.lock: Lock | None = None
        # Of durable sandboxes, by owner and id, for their next wake; never stored. They may be secrets: every act here
        # that ends a sandbox for good, or finds that it has ended, forgets its own.
        self.environments: dict[tuple[str, str], Mapping[str, str]] = {}
        self._sweep_engines = sweep_engines

    @property
    def name(self) -> str:
        """The name of this host in the store."""
        assert self.lock is not None
        return self.lock.name

    async def open(self) -> None:
        """Take the lock, and sweep up after hosts that are gone.

        Raises:
            SandboxError: when the state folder cannot be used.
        """
        await self.store.call(self._open)

    async def sweep(self) -> None:
        """End what hosts that are gone left, let their sandboxes sleep, and forget what is too old."""
        before = list(self.environments)

        def sweep(store: Store) -> set[tuple[str, str]]:
            self._sweep(store)
            return {(record.owner, record.id) for record in store.sandboxes()}

        there = await self.store.call(sweep)
        for key in before:
            if key not in there:  # another process may have closed it
                self.environments.pop(key, None)

    async def find(self, owner: str, id: str) -> SandboxRecord:
        """The record of a sandbox that may be used here; raises as claim() does."""

        def look(store: Store) -> SandboxRecord:
            found = truly(checked(store.sandbox(id, owner)), self.locks.is_held)
            if found.host not in (None, self.name):
                raise taken(found)
            return found

        with self._forgetting(owner, id):
            return await self.store.call(look)

    async def has(self, owner: str, id: str) -> bool:
        """Whether an owner has, or had, a durable sandbox of this id."""
        return await self.store.call(lambda store: store.sandbox(id, owner) is not None)

    async def of_owner(self, owner: str) -> list[SandboxRecord]:
        """The records of an owner's sandboxes that are not closed."""
        return await self.store.call(lambda store: [truly(each, self.locks.is_held) for each in store.sandboxes(owner)])

    async def add(self, record: SandboxRecord) -> SandboxRecord | None:
        """Write a new sandbox down as live on this host. None when its owner has it already: nothing is written then.

        Another owner may have a sandbox of this id: the new one gets another id, and its caller learns nothing of that.

        Raises:
            StoreFailed: when it cannot be written.
        """

        live = replace(record, state="live", host=self.name)
        written: list[str] = []

        def write(store: Store) -> SandboxRecord | None:
            there = store.sandbox(live.id)
            if there is None:
                try:
                    store.add_sandbox(live)
                except StoreFailed:
                    if (there := store.sandbox(live.id)) is None:  # else another host was faster
                        raise
            if there is not None and there.owner == live.owner:
                return None
            fresh = live if there is None else replace(live, id=str(uuid.uuid4()))
            if fresh is not live:
                store.add_sandbox(fresh)
            written.append(fresh.id)
            return fresh

        def undo(store: Store) -> None:
            for each in written:
                store.remove_sandbox(each)

        return await self._done_or_undone(write, undo)

    async def claim(self, owner: str, id: str) -> SandboxRecord:
        """Take a sandbox that sleeps.

        Raises:
            SandboxMissing: when there is none with this id and owner.
            SandboxClosed: when it was closed for good.
            SandboxTaken: when another host that lives has it.
            StoreFailed: when the store cannot be used.
        """
        name = self.name
        claimed: list[SandboxRecord] = []

        def claim(store: Store) -> SandboxRecord:
            claimed.append(self._claim(store, owner, id))
            return claimed[0]

        def undo(store: Store) -> None:
            for each in claimed:
                store.release(name, each.reason, each.id)

        with self._forgetting(owner, id):
            return await self._done_or_undone(claim, undo)

    async def release(self, id: str, reason: str | None, last_used: float | None = None) -> None:
        """Let a sandbox sleep in the store, with the time of its last use when that is later than what was written."""
        name = self.name

        def release(store: Store) -> None:
            if last_used is not None and (found := store.sandbox(id)) is not None and found.host == name:
                store.update_sandbox(id, max(last_used, found.last_used), found.packages)
            store.release(name, reason, id)

        await self.store.call(release)

    async def remove(self, record: SandboxRecord) -> None:
        """Forget a sandbox that did not start."""
        self.environments.pop((record.owner, record.id), None)
        await self.store.call(lambda store: store.remove_sandbox(record.id))

    async def close_record(self, record: SandboxRecord, reason: str | None = None) -> None:
        """End a sandbox for good, as far as the store knows it."""

        def close(store: Store) -> None:
            store.close_sandbox(record.id, reason)
            self.environments.pop((record.owner, record.id), None)  # here, also when the wait is cancelled

        await self.store.call(close)

    async def close_asleep(self, owner: str, id: str, reason: str | None = None) -> None:
        """End a sandbox for good that is not live here. One that is gone already is left alone.

        It is claimed first, in one act, so that no other host wakes it meanwhile.

        Raises:
            SandboxTaken: when another host that lives has it.
            StoreFailed: when the store cannot be used.
        """

        def close(store: Store) -> None:
            with contextlib.suppress(SandboxMissing, SandboxClosed):
                store.close_sandbox(self._claim(store, owner, id).id, reason)
            self.environments.pop((owner, id), None)

        await self.store.call(close)

    def check_owned(self, found: SandboxRecord | None) -> None:
        """Refuse to save what another host has meanwhile, because the lock of this one or the store was removed.

        Raises:
            SandboxTaken: when that is so.
        """
        if found is None or found.host != self.name:
            raise SandboxTaken(
                f"this sandbox is not this host's any more: its lock in {self.settings.state_dir} or the store was "
                "removed. Nothing more of it is saved here; connect to it again, or make a new one"
            )

    def is_too_old(self, record: SandboxRecord) -> bool:
        """Whether it has lived longer than the operator allows."""
        return bool(self.settings.max_age_s) and self.now() - record.created > self.settings.max_age_s

    @property
    def too_old(self) -> str:
        """Why a sandbox that is too old is closed, in words."""
        return f"it was older than {self.settings.max_age_s:,} s (BELLJAR_MAX_AGE_S)"

    def note_processes(self, pids: Iterable[int]) -> None:
        """Write down the processes that must not outlive this host."""
        if self.lock is not None:
            with contextlib.suppress(OSError):
                self.lock.note(pids)

    async def close(self) -> None:
        """Let every sandbox of this host sleep, and let go of the lock and the store."""
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_S):
                    await self.store.call(self._close)
        finally:
            self.store.close()

    def forget(self) -> None:
        """In a forked child: let go of the lock without releasing it, which is the parent's."""
        if self.lock is not None:
            self.lock.forget()

    @contextlib.contextmanager
    def _forgetting(self, owner: str, id: str) -> Iterator[None]:
        """Forget the environment of a sandbox when the store says that it has ended."""
        try:
            yield
        except (SandboxMissing, SandboxClosed):
            self.environments.pop((owner, id), None)
            raise

    async def _done_or_undone(self, act: Callable[[Store], T], undo: Callable[[Store], None]) -> T:
        """Wait for an act in the store. When the wait is cancelled, the store does the act and then undoes it.

        `undo` must know from the act itself what it did: the future of a cancelled wait has no result.
        """
        try:
            return await self.store.call(act)
        except asyncio.CancelledError:
            self.store.begin(undo)
            raise

    def _open(self, store: Store) -> None:
        self.lock = self.locks.take()
        try:
            self.key = own_key(self.settings.state_dir)
            self.keys = known_keys(self.settings.state_dir)
            self._sweep(store)
        except BaseException:
            self.lock.release()
            self.lock = None
            raise

    def _close(self, store: Store) -> None:
        if self.lock is not None:
            try:
                store.release(self.name, "its host was closed")
            finally:
                self.lock.release()

    def _sweep(self, store: Store) -> None:
        for gone in self.locks.gone():
            ended = gone.end_processes()
            asleep = store.release(gone.name, ENDED)
            self.journal.tell("host_swept", host=gone.name, processes=ended, sandboxes=len(asleep))
        self._sweep_engines()
        store.prune(self.now() - self.settings.history_days * DAY_S)
        for record in store.sandboxes():
            if record.host is None and self.is_too_old(record):
                store.close_sandbox(record.id, self.too_old)

    def _claim(self, store: Store, owner: str, id: str) -> SandboxRecord:
        found = checked(store.sandbox(id, owner))
        if found.host is not None and found.host != self.name:
            if self.locks.is_held(found.host):
                raise taken(found)
            self._sweep(store)
            found = checked(store.sandbox(id, owner))
            if found.host is not None:  # its lock was removed by hand
                found = replace(found, reason=ENDED)
        if self.is_too_old(found):
            store.close_sandbox(found.id, self.too_old)
            raise SandboxClosed(f"this sandbox was closed: {self.too_old}")
        if not store.claim(found.id, self.name, found.host):
            raise taken(found)
        return found


def truly(record: SandboxRecord, is_held: Callable[[str], bool]) -> SandboxRecord:
    """A record as it is in truth: asleep, when the host that had the sandbox ended without releasing it."""
    if record.host is None or is_held(record.host):
        return record
    return replace(record, state="asleep", host=None, reason=ENDED)


def checked(found: SandboxRecord | None) -> SandboxRecord:
    """A record that may be used.

    Raises:
        SandboxMissing: when there is none.
        SandboxClosed: when it was closed for good.
    """
    if found is None:
        raise missing()
    if found.state == "closed":
        raise SandboxClosed(f"this sandbox was closed{f': {found.reason}' if found.reason else ''}; make a new one")
    return found


def missing() -> SandboxMissing:
    """The one error for an id that is unknown, or another owner's."""
    return SandboxMissing(
        "there is no sandbox with this id; `belljar sandboxes list` shows the durable ones that there are"
    )


def taken(record: SandboxRecord) -> SandboxTaken:
    """The error for a sandbox that another host has."""
    return SandboxTaken(
        f"this sandbox is live in another process (pid {pid_of(record.host or '')}); use it there, or end it with "
        f"`belljar sandboxes close {record.id}`"
    )
