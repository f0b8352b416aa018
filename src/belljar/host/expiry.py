"""When durable sandboxes sleep, and when they are closed: idle for long, too old, or in somebody else's place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from belljar.errors import SandboxError

if TYPE_CHECKING:
    from belljar.host.host import Host
    from belljar.host.session import Session
    from belljar.store.base import SandboxRecord

T = TypeVar("T")

TICK_S = 30.0
SLOW_S, RETRY_S = 3.0, 60.0


class Expiry:
    """Of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._settings = host.settings
        self._tasks: set[asyncio.Task[Any]] = set()
        self._trying: set[str] = set()  # sandboxes that are falling asleep
        self._leaving: set[str] = set()  # those of them that make room for somebody
        self._stubborn: dict[str, float] = {}  # those that did not, and when

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
        """For each who waits for a place: let a durable sandbox sleep that nobody uses."""
        wanted = 0 if self._host.closed else max(0, self._host.admission.waiting - len(self._leaving))
        for session in self._idle()[:wanted] if wanted else ():
            self._leaving.add(session.spec.id)
            self._start(self._leave(session))

    def _idle(self) -> list[Session]:
        """Those that may sleep: first what is saved already, then what was not used for longest."""
        recently = time.monotonic() - RETRY_S
        self._stubborn = {name: since for name, since in self._stubborn.items() if since > recently}
        idle = [(session.life, session) for session in self._host.sessions.values() if not session.users]
        free = [
            ((not life.is_saved, life.last_used), session)
            for life, session in idle
            if life is not None and session.spec.id not in self._trying and session.spec.id not in self._stubborn
        ]
        return [session for _, session in sorted(free, key=lambda pair: pair[0])]

    async def _leave(self, session: Session) -> None:
        """Have one make room; when it cannot be saved, or not soon, the next one is asked."""
        trying = self._start(self._try(session, "it was put to sleep to make room for another"))
        await asyncio.wait((trying,), timeout=SLOW_S)
        self._leaving.discard(session.spec.id)
        if not trying.done() or not trying.result():
            self._stubborn[session.spec.id] = time.monotonic()
        self.make_room()
        await trying

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
        elif idle_s and time.time() - life.last_used > idle_s and session.spec.id not in self._trying:
            # One that takes long to save does not keep others from sleeping.
            self._start(self._try(session, f"it was put to sleep after {idle_s:,} s without use"))

    async def _try(self, session: Session, reason: str) -> bool:
        self._trying.add(session.spec.id)
        try:
            return await self.hibernate(session, reason)
        except SandboxError as failure:
            self._host.journal.warn("expiry_failed", session.spec.id, failure)
            return False
        finally:
            self._trying.discard(session.spec.id)

    def _start(self, act: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
