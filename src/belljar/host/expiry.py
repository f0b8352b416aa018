"""When durable sandboxes sleep, and when they are closed: idle for long, too old, or in somebody else's place."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from belljar.errors import SandboxError

if TYPE_CHECKING:
    from belljar.host.host import Host
    from belljar.host.session import Session
    from belljar.store.base import SandboxRecord

TICK_S = 30.0


class Expiry:
    """Of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._settings = host.settings
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leaving: set[str] = set()  # the ids of those that are falling asleep

    def begin(self) -> None:
        """Look after the durable sandboxes of the host from now on."""
        self._start(self._tick())

    async def close(self) -> None:
        """Leave what was begun to the end of the host, which saves what it can in time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def hibernate(self, session: Session, reason: str) -> bool:
        """Save a durable sandbox and free its memory; the next use wakes it. False when it is in use.

        Raises:
            SandboxError: when it could not be saved; it stays as it is.
        """
        host, life = self._host, session.life
        async with host.start_of(session.spec.id):  # nobody begins to use it meanwhile
            if life is None or session.users or session.closed:
                return False
            await life.settle()
            if session.spec.id not in host.sessions:  # closed meanwhile
                return False
            session.is_asleep = True
            await host.let_go(session)
            await (await host.durability()).release(life, reason)
        host.journal.tell("hibernated", session.spec.id, why=reason)
        return True

    def make_room(self) -> None:
        """Somebody waits for a place: let the durable sandbox sleep that was not used for longest, or the next."""
        if not self._host.closed:
            self._start(self._clear())

    def became_idle(self) -> None:
        """A durable sandbox is not in use any more: it may make room for those who found no other to do so."""
        if self._host.admission.waiting > len(self._leaving):
            self.make_room()

    def is_too_old(self, record: SandboxRecord) -> bool:
        """Whether it has lived longer than the operator allows."""
        return bool(self._settings.max_age_s) and time.time() - record.created > self._settings.max_age_s

    @property
    def too_old(self) -> str:
        """The reason, in words."""
        return f"it was older than {self._settings.max_age_s:,} s (BELLJAR_MAX_AGE_S)"

    async def _tick(self) -> None:
        bounds = [bound / 4 for bound in (self._settings.idle_s, self._settings.max_age_s) if bound]
        pause = max(0.1, min([TICK_S, *bounds]))
        while True:
            await asyncio.sleep(pause)
            for session in list(self._host.sessions.values()):
                await self._look_after(session)

    async def _look_after(self, session: Session) -> None:
        life, idle_s = session.life, self._settings.idle_s
        if life is None:
            return
        if self.is_too_old(life.record) and not session.users:
            try:
                await self._host.close_session(session, self.too_old)
            except SandboxError as failure:
                self._host.journal.warn("expiry_failed", session.spec.id, failure)
        elif idle_s and time.time() - life.last_used > idle_s and session.spec.id not in self._leaving:
            # One that takes long to save does not keep others from sleeping.
            self._start(self._try(session, f"it was put to sleep after {idle_s:,} s without use"))

    async def _clear(self) -> None:
        tried: set[str] = set()
        while self._host.admission.waiting and (longest := self._idle_for_longest(tried | self._leaving)) is not None:
            tried.add(longest.spec.id)
            if await self._try(longest, "it was put to sleep to make room for another"):
                return

    def _idle_for_longest(self, but: set[str]) -> Session | None:
        idle = [
            (session.life.last_used, name, session)
            for name, session in self._host.sessions.items()
            if session.life is not None and not session.users and name not in but
        ]
        return min(idle)[2] if idle else None

    async def _try(self, session: Session, reason: str) -> bool:
        self._leaving.add(session.spec.id)
        try:
            return await self.hibernate(session, reason)
        except SandboxError as failure:
            self._host.journal.warn("expiry_failed", session.spec.id, failure)
            return False
        finally:
            self._leaving.discard(session.spec.id)

    def _start(self, act: Any) -> None:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
