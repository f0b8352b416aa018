"""What a host needs to have durable sandboxes: its lock, the store, the key. Made when the first one is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from belljar.errors import InvalidRequest, PackageError, SandboxClosed, SandboxError, SandboxMissing, SandboxTaken
from belljar.host.door import Door
from belljar.host.journal import Journal
from belljar.host.life import Life
from belljar.host.lock import HostLock, gone_hosts, is_held, pid_of
from belljar.settings import Settings
from belljar.state.keys import known_keys, own_key
from belljar.store.base import SandboxRecord, Store
from belljar.store.sqlite import SqliteStore
from belljar.store.thread import StoreThread

if TYPE_CHECKING:
    from belljar.host.host import Host
    from belljar.host.session import Session

Make = Callable[[Sequence[str]], Awaitable["Session"]]  # a session with these packages

ENDED = "its host ended without closing it"
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
_of_parents: list[Durability] = []  # in a forked child: SQLite must not close a file there that the parent has open


class Durability:
    """Of one host: what it has in the state folder."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.settings: Settings = host.settings
        self.journal: Journal = host.journal
        self.store = StoreThread(SqliteStore(self.settings.state_dir))
        self.key = b""
        self.keys: dict[bytes, bytes] = {}
        self.lock: HostLock | None = None
        self._door: Door | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the lock, sweep up after hosts that are gone, and listen.

        Raises:
            SandboxError: when the state folder cannot be used.
        """
        await self.store.call(self._open)
        assert self.lock is not None
        self._door = await Door.open(self._host, self.lock)
        self._host.expiry.begin()
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep_hourly())

    async def start(self, record: SandboxRecord, is_new: bool, make: Make) -> Session:
        """A session of a durable sandbox, with the state that was last saved of it.

        Raises:
            SandboxError: as claim() does, or when it cannot be made; it sleeps on then.
        """
        life, session = await self.claim(record, is_new), None
        try:
            session, notes = await self._made(life, make)
            await life.attach(session, notes)
        except BaseException:
            if session is not None:
                await self._host.let_go(session)
            if is_new:
                await self.store.call(lambda store: store.remove_sandbox(record.id))
            else:
                await self.release(life, life.record.reason)
            raise
        self.note_processes()
        return session

    async def find(self, id: str, owner: str) -> SandboxRecord:
        """The row of a sandbox that may be used here; raises as claim() does."""

        def look(store: Store) -> SandboxRecord:
            found = checked(store.sandbox(id), owner)
            if found.host not in (None, self._name) and is_held(self.settings.state_dir, str(found.host)):
                raise taken(found)
            return found

        return await self.store.call(look)

    async def close_asleep(self, id: str, owner: str) -> None:
        """End a sandbox for good that is not live here; raises as find() does, but not for one that is gone."""
        try:
            await self.find(id, owner)
        except (SandboxMissing, SandboxClosed):
            return
        await self.close_record(id)

    async def _made(self, life: Life, make: Make) -> tuple[Session, list[str]]:
        try:
            return await make(life.record.packages), []
        except (PackageError, InvalidRequest) as failure:  # an address may not be allowed any more
            if life.is_new or not life.record.packages:
                raise
            return await make(()), [f"its packages could not be added again ({failure})"]

    async def claim(self, record: SandboxRecord, is_new: bool) -> Life:
        """Have a sandbox, a new one or one that sleeps.

        Raises:
            SandboxMissing: when there is none with this id and owner.
            SandboxClosed: when it was closed for good.
            SandboxTaken: when another host that lives has it.
            StoreFailed: when the store cannot be used.
        """
        self.note_processes()
        name = self._name
        try:
            found = await self.store.call(lambda store: self._claim(store, record, is_new))
        except asyncio.CancelledError:  # it is claimed all the same, for nobody
            if is_new:
                self.store.begin(lambda store: store.remove_sandbox(record.id))
            else:
                self.store.begin(lambda store: store.release(name, None, record.id))
            raise
        return Life(self, found, is_new)

    async def release(self, life: Life, reason: str | None) -> None:
        """Let a sandbox sleep in the store."""
        name = self._name
        await self.store.call(lambda store: store.release(name, reason, life.record.id))

    async def close_record(self, id: str, reason: str | None = None) -> None:
        """End a sandbox for good, as far as the store knows it."""
        await self.store.call(lambda store: store.close_sandbox(id, reason))

    def check_owned(self, found: SandboxRecord | None) -> None:
        """Refuse to save what another host has meanwhile: somebody removed the lock of this one, or the store.

        Raises:
            SandboxTaken: when that is so.
        """
        if found is None or found.host != self._name:
            raise SandboxTaken(
                f"this sandbox is not this host's any more: its lock in {self.settings.state_dir} or the store was "
                "removed. Nothing more of it is saved here; connect to it again, or make a new one"
            )

    def note_processes(self) -> None:
        """Whatever must not outlive this host is written into its lock."""
        if self.lock is not None:
            with contextlib.suppress(OSError):
                self.lock.note(self._host.registry.outermost())

    async def close(self) -> None:
        """Let every sandbox of this host sleep, and let go of the state folder."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._door is not None:
            await self._door.close()
        with contextlib.suppress(SandboxError):
            await self.store.call(self._close)
        self.store.close()

    def forget(self) -> None:
        """In a forked child: nothing of it is ours, and not even letting go of the store may happen here."""
        _of_parents.append(self)
        if self.lock is not None:
            self.lock.forget()

    @property
    def _name(self) -> str:
        assert self.lock is not None
        return self.lock.name

    def _open(self, store: Store) -> None:
        self.lock = HostLock.take(self.settings.state_dir)
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
                store.release(self._name, "its host was closed")
            finally:
                self.lock.release()

    def _sweep(self, store: Store) -> None:
        """End what hosts that are gone left, and let their sandboxes sleep."""
        for gone in gone_hosts(self.settings.state_dir):
            ended = gone.end_processes()
            asleep = store.release(gone.name, ENDED)
            self.journal.tell("host_swept", host=gone.name, processes=ended, sandboxes=len(asleep))
        self._host.registry.sweep()
        store.prune(time.time() - self.settings.history_days * DAY_S)
        for record in store.sandboxes():
            if record.host is None and self._host.expiry.is_too_old(record):
                store.close_sandbox(record.id, self._host.expiry.too_old)

    async def _sweep_hourly(self) -> None:
        while True:
            await asyncio.sleep(HOUR_S)
            with contextlib.suppress(SandboxError):
                await self.store.call(self._sweep)

    def _claim(self, store: Store, record: SandboxRecord, is_new: bool) -> SandboxRecord:
        if is_new:
            store.add_sandbox(record)
            store.claim(record.id, self._name, None)
            return record
        found = checked(store.sandbox(record.id), record.owner)
        if found.host is not None and found.host != self._name:
            if is_held(self.settings.state_dir, found.host):
                raise taken(found)
            self._sweep(store)
            found = checked(store.sandbox(record.id), record.owner)
            if found.host is not None:  # somebody removed the lock
                found = replace(found, reason=ENDED)
        if self._host.expiry.is_too_old(found):
            store.close_sandbox(found.id, self._host.expiry.too_old)
            raise SandboxClosed(f"this sandbox was closed: {self._host.expiry.too_old}")
        if not store.claim(found.id, self._name, found.host):
            raise taken(found)
        return found


def checked(found: SandboxRecord | None, owner: str) -> SandboxRecord:
    """A row that may be used.

    Raises:
        SandboxMissing: when it is somebody else's, or there is none.
        SandboxClosed: when it was closed for good.
    """
    if found is None or found.owner != owner:
        raise SandboxMissing("there is no durable sandbox with this id; `belljar sandboxes list` shows those there are")
    if found.state == "closed":
        raise SandboxClosed(f"this sandbox was closed{f': {found.reason}' if found.reason else ''}; make a new one")
    return found


def taken(record: SandboxRecord) -> SandboxTaken:
    """Somebody else has it."""
    return SandboxTaken(
        f"this sandbox is live in another process (pid {pid_of(record.host or '')}); use it there, or end it with "
        f"`belljar sandboxes close {record.id}`"
    )
