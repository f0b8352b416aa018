"""What makes sandboxes of a host durable: the ledger, their guardians, and the expiry."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from belljar.durable.autosave import Autosaver
from belljar.durable.control_socket import ControlSocket
from belljar.durable.expiry import Expiry
from belljar.durable.ledger import Ledger
from belljar.durable.transitions import Transitions
from belljar.errors import InvalidRequest, PackageError, SandboxError
from belljar.host.host import Host
from belljar.host.session import Session
from belljar.store.base import SandboxRecord

Make = Callable[[SandboxRecord, Sequence[str], Autosaver], Awaitable[Session]]  # a session with these packages

HOUR_S = 3600.0


class Durability:
    """Starts, wakes and looks after the durable sandboxes of a host."""

    def __init__(self, host: Host, ledger: Ledger, transitions: Transitions) -> None:
        self._host = host
        self.ledger = ledger
        self.expiry = Expiry(host, ledger, transitions)
        self._socket: ControlSocket | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the lock, sweep up after hosts that are gone, and listen.

        Raises:
            SandboxError: when the state folder cannot be used.
        """
        await self.ledger.open()
        assert self.ledger.lock is not None
        if (address := self.ledger.lock.address) is not None:
            try:
                self._socket = await ControlSocket.open(*address, self._answer)
            except OSError as failure:  # the store still says most of what others may ask
                self._host.journal.warn("control_socket_failed", None, failure)
        self._host.when_full(self.expiry.make_room)
        self.expiry.begin()
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep_hourly())

    async def create(self, record: SandboxRecord, make: Make) -> Session | None:
        """Start a new durable sandbox; None when its owner has one of this id already.

        Raises:
            SandboxError: when it cannot be made; nothing of it is left.
        """
        added = await self.ledger.add(record)
        if added is None:
            return None
        try:
            return await self._attached(Autosaver(self.ledger, added, True, self.expiry.make_room), make)
        except BaseException:
            await self.ledger.remove(added)
            raise

    async def wake(self, owner: str, id: str, make: Make) -> Session:
        """Start a durable sandbox that sleeps, with the state that was last saved of it.

        Raises:
            SandboxError: as Ledger.claim() does, or when it cannot be made; it sleeps on then.
        """
        record = await self.ledger.claim(owner, id)
        try:
            return await self._attached(Autosaver(self.ledger, record, False, self.expiry.make_room), make)
        except BaseException:
            await self.ledger.release(record.id, record.reason)
            raise

    async def close(self) -> None:
        """Let every sandbox of this host sleep, and let go of the state folder."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self.expiry.close()
        if self._socket is not None:
            await self._socket.close()

    async def _attached(self, saver: Autosaver, make: Make) -> Session:
        self._note_processes()
        session = None
        try:
            session, notes = await self._made(saver, make)
            await saver.attach(session, notes)
        except BaseException:
            if session is not None:
                await self._host.discard(session)
            raise
        self._note_processes()
        return session

    async def _made(self, saver: Autosaver, make: Make) -> tuple[Session, list[str]]:
        record = saver.record
        try:
            return await make(record, record.packages, saver), []
        except (PackageError, InvalidRequest) as failure:  # an address may not be allowed any more
            if saver.is_new or not record.packages:
                raise
            return await make(record, (), saver), [f"its packages could not be added again ({failure})"]

    def _note_processes(self) -> None:
        self.ledger.note_processes(self._host.registry.outermost())

    async def _sweep_hourly(self) -> None:
        while True:
            await self._host.sleep(HOUR_S)
            with contextlib.suppress(SandboxError):
                await self.ledger.sweep()

    async def _answer(self, request: Any) -> dict[str, Any]:
        """Answer another process of this user. Every act names an owner."""
        match request:
            case {"act": "status", "owner": str(owner)}:
                return self._host.status(owner)
            case {"act": "close", "owner": str(owner), "id": str(id)}:
                session = self._host.session(owner, id)
                try:
                    if session is not None:
                        await self._host.close_session(session, "another process asked for it")
                except SandboxError as failure:
                    return {"error": str(failure)}
                return {"closed": session is not None}
            case _:
                return {"error": "this host knows no such act"}
