"""When durable sandboxes sleep, and when they are closed: idle for long, too old, or in the place of another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from belljar.durable.autosave import Autosaver
from belljar.durable.ledger import Ledger
from belljar.durable.transitions import Transitions
from belljar.errors import SandboxError
from belljar.host.host import Host
from belljar.host.session import Session

T = TypeVar("T")

TICK_S = 30.0
SLOW_S, RETRY_S = 3.0, 60.0


class Expiry:
    """Puts idle durable sandboxes of a host to sleep, and closes those that are too old."""

    def __init__(self, host: Host, ledger: Ledger, transitions: Transitions) -> None:
        self._host = host
        self._ledger = ledger
        self._transitions = transitions
        self._settings = host.settings
        self._tasks: set[asyncio.Task[Any]] = set()
        self._trying: set[str] = set()  # sandboxes that are falling asleep
        self._leaving: set[str] = set()  # those of them that make room for another
        self._stubborn: dict[str, float] = {}  # those that could not be put to sleep, and when

    def begin(self) -> None:
        """Look after the durable sandboxes of the host from now on."""
        self._start(self._tick())

    async def close(self) -> None:
        """Stop what was begun. The end of the host saves what it can in time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def hibernate(self, session: Session, reason: str) -> bool:
        """Save a durable sandbox and free its memory; the next use wakes it. False when it is in use.

        Raises:
            SandboxError: when it could not be saved; it stays as it is.
        """
        host = self._host
        async with self._transitions.of(session.owner, session.id):
            if not session.guardian.is_durable or session.users or session.closed:
                return False
            await session.guardian.settle()
            if host.session(session.owner, session.id) is not session:  # closed meanwhile
                return False
            try:
                await host.discard(session)
            finally:  # it is not live here any more, also when the wait was cancelled
                await self._ledger.release(session.id, reason, session.last_used)
        host.journal.tell("hibernated", session.id, why=reason)
        return True

    def make_room(self) -> None:
        """For each sandbox that waits for a place, begin to put a durable one to sleep that is not in use."""
        wanted = 0 if self._host.closed else max(0, self._host.admission.waiting - len(self._leaving))
        for session in self._idle()[:wanted] if wanted else ():
            self._leaving.add(session.id)
            self._start(self._leave(session))

    def _idle(self) -> list[Session]:
        """Those that may sleep: first what is saved already, then what was not used for longest."""
        recently = self._host.now() - RETRY_S
        self._stubborn = {name: since for name, since in self._stubborn.items() if since > recently}
        free = [
            ((not saver.is_saved, session.last_used), session)
            for session, saver in self._durable()
            if not session.users and session.id not in self._trying and session.id not in self._stubborn
        ]
        return [session for _, session in sorted(free, key=lambda pair: pair[0])]

    def _durable(self) -> list[tuple[Session, Autosaver]]:
        pairs = [(session, session.guardian) for session in self._host.sessions()]
        return [(session, saver) for session, saver in pairs if isinstance(saver, Autosaver)]

    async def _leave(self, session: Session) -> None:
        """Have one make room; when it cannot be saved, or not soon, the next one is asked."""
        trying = self._start(self._try(session, "it was put to sleep to make room for another"))
        await asyncio.wait((trying,), timeout=SLOW_S)
        self._leaving.discard(session.id)
        if not trying.done() or trying.result() is None:
            self._stubborn[session.id] = self._host.now()
        self.make_room()
        await trying

    async def _tick(self) -> None:
        bounds = [bound / 4 for bound in (self._settings.idle_s, self._settings.max_age_s) if bound]
        pause = max(0.1, min([TICK_S, *bounds]))
        while True:
            await self._host.sleep(pause)
            for session, saver in self._durable():
                try:
                    await self._look_after(session, saver)
                except Exception as failure:  # one that fails must not end the look after the others
                    self._host.journal.warn("expiry_failed", session.id, failure)

    async def _look_after(self, session: Session, saver: Autosaver) -> None:
        idle_s = self._settings.idle_s
        if self._ledger.is_too_old(saver.record) and not session.users:
            try:
                await self._host.close_session(session, self._ledger.too_old)
            except SandboxError as failure:
                self._host.journal.warn("expiry_failed", session.id, failure)
        elif idle_s and self._host.now() - session.last_used > idle_s and session.id not in self._trying:
            # One that takes long to save does not keep others from sleeping.
            self._start(self._try(session, f"it was put to sleep after {idle_s:,} s without use"))

    async def _try(self, session: Session, reason: str) -> bool | None:
        """Put a sandbox to sleep. False when it is in use, None when it could not be saved."""
        self._trying.add(session.id)
        try:
            return await self.hibernate(session, reason)
        except SandboxError as failure:
            self._host.journal.warn("expiry_failed", session.id, failure)
            return None
        finally:
            self._trying.discard(session.id)

    def _start(self, act: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
