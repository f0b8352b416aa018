"""The host: a process that owns sandboxes. It starts them, keeps some ready, and ends them all when it ends."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from belljar.engines.base import Engine, Spec
from belljar.engines.registry import Registry
from belljar.errors import HostBusy, InvalidRequest, SandboxClosed, SandboxError
from belljar.health import EngineHealth
from belljar.host.admission import Admission
from belljar.host.guardian import Guardian
from belljar.host.journal import Journal
from belljar.host.pools import Pools
from belljar.host.session import Session
from belljar.host.shared import Shared
from belljar.host.source_builds import SourceBuilds
from belljar.packages.environment import Environment
from belljar.packages.installer import Installer
from belljar.policy import Policy
from belljar.settings import Settings
from belljar.store.base import SandboxRecord

LAST_SAVE_S = 20.0  # at the end of the host; what takes longer continues from what was saved before
MOST_CLOSED = 10_000  # sandboxes that were closed, whose callers still get the reason


@dataclass(frozen=True)
class Plan:
    """What a session is made of, beside its record."""

    engine: Engine
    installer: Installer
    environment: Environment
    env: dict[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] = ()


class Host:
    """Owns the engines, the pools and the live sandboxes of a service."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry | None = None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self.registry = registry or Registry(settings)
        self.now = now
        self.sleep = sleep
        self.journal = Journal()
        self.pools = Pools(settings.pool_size)
        self.admission = Admission(settings.max_sandboxes, settings.max_queue, self._make_room)
        self.shared = self._share(self.journal)
        self._sessions: dict[tuple[str, str], Session] = {}  # by owner and id: no look-up can leave the owner out
        self._placed: set[tuple[str, str]] = set()  # sessions that have one of the host's places
        self._closed_ids: OrderedDict[tuple[str, str], str | None] = OrderedDict()
        self._on_full: Callable[[], None] = lambda: None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it takes no more sandboxes."""
        return self._closed

    def session(self, owner: str, id: str) -> Session | None:
        """The live sandbox of this owner and id."""
        return self._sessions.get((owner, id))

    def sessions(self, owner: str | None = None) -> list[Session]:
        """The live sandboxes of an owner, or of all owners."""
        return [session for session in self._sessions.values() if owner is None or session.owner == owner]

    def check_not_closed(self, owner: str, id: str) -> None:
        """Refuse an id of a sandbox that this host has closed.

        Raises:
            SandboxClosed: with the reason.
        """
        if (owner, id) in self._closed_ids:
            reason = self._closed_ids[owner, id]
            raise SandboxClosed(f"this sandbox was closed{f': {reason}' if reason else ''}; make a new one")

    def was_closed(self, owner: str, id: str) -> bool:
        """Whether this host has closed the sandbox of this owner and id."""
        return (owner, id) in self._closed_ids

    def when_full(self, make_room: Callable[[], None]) -> None:
        """Call this whenever a sandbox waits for a place."""
        self._on_full = make_room

    async def environment(
        self, installer: Installer, policy: Policy, python: str | None = None, packages: Sequence[str] = ()
    ) -> Environment:
        """What a sandbox imports from; prepared off the loop when it must be, which takes long.

        Raises:
            PackageError: when packages cannot be had.
        """
        if installer.is_prepared(policy, python):
            found = installer.environment(policy, None, python)
        else:
            found = await asyncio.to_thread(installer.environment, policy, None, python)
        if not packages:
            return found
        from belljar.packages.failure import told_as_written

        wanted = await self.shared.sources.with_wheels(installer, found, packages)
        with told_as_written(packages, wanted):
            return await asyncio.to_thread(installer.extend, found, wanted, None)

    async def admit(self, record: SandboxRecord, plan: Plan, guardian: Guardian | None = None) -> Session:
        """Start a sandbox within the bound on how many there may be.

        Raises:
            HostBusy: when there are as many as there may be, and none was closed in time.
            SandboxError: when it did not start.
        """
        await self.reserve(record.id)
        try:
            session = await self.start(record, plan, guardian)
        except BaseException:
            self.admission.leave()
            raise
        self.register(session)
        return session

    async def reserve(self, id: str) -> None:
        """Reserve a place for a sandbox. The caller must register a session in it, or call `admission.leave()`.

        Raises:
            HostBusy: when there are as many as there may be, and none was closed in time.
        """
        try:
            await self.admission.enter()
        except HostBusy as failure:
            self.journal.tell("busy", id, why=str(failure))
            raise

    def register(self, session: Session) -> None:
        """Count a live session among those of this host, in the place that was reserved for it."""
        key = session.owner, session.id
        self._sessions[key] = session
        self._placed.add(key)
        self.journal.tell("created", session.id, engine=session.engine.name)

    async def start(
        self, record: SandboxRecord, plan: Plan, guardian: Guardian | None = None, shared: Shared | None = None
    ) -> Session:
        """Start a session, from the pool when one fits. It is not registered.

        Raises:
            SandboxError: when it did not start; nothing of it is left.
        """
        engine = plan.engine
        self._check_capable(engine, record.policy)
        spec = Spec(str(uuid.uuid4()), plan.environment, record.limits, record.policy, plan.env)
        process = await self.pools.process(engine, spec)
        session = Session(record, engine, plan.installer, spec, process, shared or self.shared, guardian, plan.tools)
        if self._closed:
            await session.close()
            raise SandboxClosed("the host was closed while the sandbox started")
        self.pools.prepare_more(engine, spec.environment)
        return session

    async def close_session(self, session: Session, reason: str | None = None) -> None:
        """End a sandbox for good. Later uses of its id get the reason.

        Raises:
            SandboxError: when what is saved of a durable one could not be deleted; it sleeps, and may be closed again.
        """
        key = session.owner, session.id
        self._closed_ids[key] = reason
        if len(self._closed_ids) > MOST_CLOSED:
            self._closed_ids.popitem(last=False)
        session.guardian.stop()
        try:
            await self.discard(session, reason)
            await session.guardian.close(reason)
        except BaseException:
            if session.guardian.is_durable:
                self._closed_ids.pop(key, None)
            raise
        self.journal.tell("closed", session.id, why=reason or "asked for")

    async def discard(self, session: Session, reason: str | None = None) -> None:
        """End what is live of a sandbox; what is saved of it stays."""
        key = session.owner, session.id
        if self._sessions.get(key) is session:
            del self._sessions[key]
        had_place = key in self._placed
        self._placed.discard(key)
        try:
            await session.close(reason)
        finally:
            if had_place:
                self.admission.leave()

    def status(self, owner: str | None = None) -> dict[str, Any]:
        """What there is now, as plain data: counters, and what each live sandbox uses."""
        return {
            "counters": dict(self.journal.counters),
            "waiting": self.admission.waiting,
            "sandboxes": {session.id: session.usage() for session in self.sessions(owner)},
        }

    async def health(self) -> list[EngineHealth]:
        """What every engine can do here."""
        return [await self.registry.engine(name).check() for name in self.registry.names]

    async def close(self) -> None:
        """End everything this host owns."""
        self._closed = True
        try:
            await self.pools.close()
        finally:
            try:
                kept = (self._close_kept(session) for session in self.sessions())
                await asyncio.gather(*kept, return_exceptions=True)
            finally:
                self._sessions.clear()
                await self.registry.close()

    async def _close_kept(self, session: Session) -> None:
        """At the end of the host: save what is durable first, unless a run is on, which may take long."""
        try:
            if not session.users:
                async with asyncio.timeout(LAST_SAVE_S):
                    await session.guardian.settle()
        except SandboxError as failure:
            self.journal.warn("checkpoint_failed", session.id, failure)
        except TimeoutError:
            late = SandboxError(f"its last state was not saved within {LAST_SAVE_S:g} s, and its host ends")
            self.journal.warn("checkpoint_failed", session.id, late)
        finally:
            await session.close()

    def _check_capable(self, engine: Engine, policy: Policy) -> None:
        asked = {name for name in ("network", "mounts") if getattr(policy, name)}
        if beyond := asked - engine.capabilities:
            able = [name for name in self.registry.names if asked <= self.registry.engine(name).capabilities]
            advice = f"use engine={able[0]!r}" if able else "leave it out: no engine has all of it here"
            raise InvalidRequest(f"the {engine.name} engine has no {' or '.join(sorted(beyond))} here; {advice}")

    def _make_room(self) -> None:
        self._on_full()

    def _share(self, journal: Journal) -> Shared:
        builder = self.registry.builder()
        sources = SourceBuilds(self.settings, builder and builder[1], self._build_sandbox)
        return Shared(journal, sources, self.settings.max_queue, self.now)

    @asynccontextmanager
    async def _build_sandbox(self, spec: Spec) -> AsyncIterator[Session]:
        """A sandbox that sources are built in. It has no owner, no place and no log of its own."""
        builder = self.registry.builder()
        assert builder is not None
        engine, installer = builder
        record = SandboxRecord(spec.id, engine.name, self.now(), self.now(), limits=spec.limits, policy=spec.policy)
        unlogged = replace(self.shared, journal=Journal(is_logged=False))
        session = await self.start(record, Plan(engine, installer, spec.environment), shared=unlogged)
        try:
            yield session
        finally:
            await session.close()
