"""The host: a process that owns sandboxes. It makes them, keeps some ready, and ends them all when it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from belljar.engines.base import Engine, EngineHealth, KernelProcess, Spec
from belljar.engines.registry import FACTORIES, Registry
from belljar.errors import HostBusy, InvalidRequest, SandboxClosed, SandboxError, StartFailed
from belljar.host.admission import Admission
from belljar.host.expiry import Expiry
from belljar.host.journal import Journal
from belljar.host.network import Network
from belljar.host.pool import Pool
from belljar.host.session import Session, configuration
from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar.settings import Settings

if TYPE_CHECKING:
    from belljar.host.durability import Durability
    from belljar.store.base import SandboxRecord

READY_TIMEOUT_S = 60
LAST_SAVE_S = 20.0  # at the end of the host; what takes longer than that goes on from what was saved before
USUAL_LIMITS = Limits()
MOST_LAYERED = 4  # pools of environments with a layer


class Host:
    """Owns the engines, the pools and the live sandboxes of this process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.registry = Registry(settings)
        self.sessions: dict[str, Session] = {}
        self._pools: dict[tuple[str, str], Pool] = {}
        self._warming: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._layered: dict[tuple[str, str], None] = {}  # whose pools are of a layer, the oldest first
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self.journal = Journal()
        self.expiry = Expiry(self)
        self.admission = Admission(settings.max_sandboxes, settings.max_queue, self.expiry.make_room)
        self._durability: asyncio.Task[Durability] | None = None
        self._starts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create(self, engine_name: str, spec: Spec) -> Session:
        """A sandbox, from the pool when one fits.

        Raises:
            SandboxError: when it cannot be made.
        """
        engine = await self.registry.choose(engine_name)
        asked = {name for name in ("network", "mounts") if getattr(spec.policy, name)}
        if beyond := asked - engine.capabilities:
            able = [name for name in FACTORIES if asked <= self.registry.get(name).capabilities]
            advice = f"use engine={able[0]!r}" if able else "leave it out: no engine has all of it here"
            raise InvalidRequest(f"the {engine.name} engine has no {' or '.join(sorted(beyond))} here; {advice}")
        network = Network(spec.policy, engine.most_connections)
        spec = replace(spec, egress=network.egress)
        try:
            process, is_pooled = await self._process(engine, spec)
        except BaseException:
            await network.close()
            raise
        session = Session(engine, spec, process, network, partial(self.built, engine))
        if self._closed:
            await session.close()
            raise SandboxClosed("the host was closed while the sandbox started")
        self.sessions[spec.id] = session
        session.is_set_up = True
        try:
            if is_pooled and (spec.env or spec.policy.network or spec.limits != USUAL_LIMITS):
                await session.configure()
            if spec.policy.network:
                await network.egress()
        except BaseException:
            await self.close_session(session)
            raise
        self._prepare_more(engine, spec.environment)
        return session

    async def admit(self, engine_name: str, spec: Spec) -> Session:
        """The same for whoever uses this host: within its bound, told, and with a queue that has one.

        Raises:
            HostBusy: when there are as many as there may be, and none was closed in time.
            SandboxError: when it cannot be made.
        """
        await self.enter(spec.id)
        try:
            session = await self.create(engine_name, spec)
        except BaseException:
            self.admission.leave()
            raise
        self.welcome(session)
        return session

    async def enter(self, id: str) -> None:
        """Wait for a place for a sandbox. Whoever has one welcomes the sandbox, or leaves again.

        Raises:
            HostBusy: when there are as many as there may be, and none was closed in time.
        """
        try:
            await self.admission.enter()
        except HostBusy as failure:
            self.journal.tell("busy", id, why=str(failure))
            raise

    def welcome(self, session: Session) -> None:
        """Have a sandbox among those of this host, in the place that was waited for."""
        session.has_place, session.journal, session.max_queue = True, self.journal, self.settings.max_queue
        self.sessions[session.spec.id] = session
        self.journal.tell("created", session.spec.id, engine=session.engine_name)

    @property
    def closed(self) -> bool:
        """Whether it takes no more sandboxes."""
        return self._closed

    async def built(self, engine: Engine, environment: Environment, requirements: Sequence[str]) -> list[str]:
        """The same requirements with a wheel on this machine in place of each address.

        Raises:
            PackageError: with the reason.
        """
        from belljar.packages.addresses import is_address

        found = []
        for text in requirements:
            if is_address(text):
                from belljar.host import building

                text = await building.built(self, engine, environment, text)
            found.append(text)
        return found

    async def close_session(self, session: Session, reason: str | None = None) -> None:
        """End one sandbox, for good; a durable one is told why when it is asked for again."""
        session.closed_because = reason
        if session.life is not None:
            session.life.stop()
        await self.let_go(session)
        if session.life is not None:
            await (await self.durability()).close_record(session.spec.id, reason)
        self.journal.tell("closed", session.spec.id, why=reason or "asked for")

    async def durability(self) -> Durability:
        """What durable sandboxes need; opened when the first one is asked for.

        Raises:
            SandboxError: when the state folder cannot be used; the next one tries again.
        """
        if self._durability is None or (self._durability.done() and self._durability.exception() is not None):
            self._durability = asyncio.get_running_loop().create_task(self._open_durability())
        return await asyncio.shield(self._durability)

    def start_of(self, id: str) -> asyncio.Lock:
        """Held while a sandbox starts, wakes or falls asleep; the same for everybody who has its id."""
        return self._starts.setdefault(id, asyncio.Lock())

    def status(self) -> dict[str, Any]:
        """What there is now, as plain data: counters, and what each live sandbox uses."""
        return {
            "counters": dict(self.journal.counters),
            "waiting": self.admission.waiting,
            "sandboxes": {name: session.usage() for name, session in self.sessions.items()},
        }

    async def close_by_id(self, id: str) -> bool:
        """End the live sandbox of that id; whether there was one."""
        session = self.sessions.get(id)
        if session is not None:
            await self.close_session(session, "another process asked for it")
        return session is not None

    async def find(self, id: str, owner: str) -> SandboxRecord:
        """What is known of a sandbox that somebody wants to use by its id.

        Raises:
            SandboxMissing: when there is none.
            SandboxClosed: when it was closed for good.
            SandboxTaken: when another host that lives has it.
        """
        async with self.start_of(id):  # one that is just waking is not known as durable yet
            session = self.sessions.get(id)
        if session is None or session.life is not None:
            return await (await self.durability()).find(id, owner)
        from belljar.store.base import SandboxRecord

        spec = session.spec
        return SandboxRecord(id, session.engine_name, 0.0, 0.0, limits=spec.limits, policy=spec.policy)

    async def close_asleep(self, id: str, owner: str) -> None:
        """End a durable sandbox for good that is not live here."""
        await (await self.durability()).close_asleep(id, owner)

    def forget(self) -> None:
        """In a forked child: whatever this host holds is the parent's."""
        if self._durability is not None and self._durability.done() and self._durability.exception() is None:
            self._durability.result().forget()

    async def health(self) -> list[EngineHealth]:
        """What every engine can do here."""
        return [await self.registry.get(name).check() for name in FACTORIES]

    async def ready(self, engine_name: str, environment: Environment) -> None:
        """Wait until the next sandbox of this kind comes from a full pool.

        Raises:
            StartFailed: when that does not come about.
        """
        if not self.settings.pool_size:
            raise StartFailed("no sandboxes are kept ready: BELLJAR_POOL_SIZE is 0")
        engine = await self.registry.choose(engine_name)
        self._prepare_more(engine, environment)
        key = (engine.name, environment.digest)
        await self._warming[key]
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while self._pools[key].ready < self._pools[key].size:
                    await self._pools[key].drop_dead()
                    self._pools[key].refill()
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise StartFailed(f"no sandbox could be kept ready within {READY_TIMEOUT_S} s") from None

    async def close(self) -> None:
        """End everything this host owns."""
        self._closed = True
        for task in self._warming.values():
            task.cancel()
        await self.expiry.close()
        await asyncio.gather(*self._warming.values(), *self._closing, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()), return_exceptions=True)
        await asyncio.gather(*(self._close_kept(session) for session in self.sessions.values()), return_exceptions=True)
        self.sessions.clear()
        self._pools.clear()
        await self.registry.close()
        if self._durability is not None:
            with contextlib.suppress(SandboxError):  # it was never opened
                await (await asyncio.shield(self._durability)).close()

    async def _close_kept(self, session: Session) -> None:
        """At the end of the host: what is durable is saved first, unless a run is on, which may take long."""
        if session.life is not None and not session.users:
            try:
                async with asyncio.timeout(LAST_SAVE_S):
                    await session.life.settle()
            except SandboxError as failure:
                self.journal.warn("checkpoint_failed", session.spec.id, failure)
            except TimeoutError:
                late = SandboxError(f"its last state was not saved within {LAST_SAVE_S:g} s, and its host ends")
                self.journal.warn("checkpoint_failed", session.spec.id, late)
        await session.close()

    async def let_go(self, session: Session) -> None:
        """End what is live of a sandbox; what is kept of it stays."""
        self.sessions.pop(session.spec.id, None)
        had_place, session.has_place = session.has_place, False
        try:
            await session.close()
        finally:
            if had_place:
                self.admission.leave()

    async def _process(self, engine: Engine, spec: Spec) -> tuple[KernelProcess, bool]:
        """A process for a sandbox, and whether it comes from the pool."""
        pool = self._pools.get((engine.name, spec.environment.digest))
        process = await pool.take(spec) if pool is not None and not spec.policy.mounts else None
        if process is not None:
            return process, True
        if pool is not None:
            return await pool.start(spec), False
        return await engine.start(spec, partial(configuration, spec=spec, warm=False)), False

    async def _open_durability(self) -> Durability:
        from belljar.host.durability import Durability

        made = Durability(self)
        try:
            await made.open()
        except BaseException:
            made.store.close()
            raise
        return made

    def _prepare_more(self, engine: Engine, environment: Environment) -> None:
        """After the first sandbox of a kind: warm its environment up, then keep some ready. Nobody waits for it."""
        key = (engine.name, environment.digest)
        if self.settings.pool_size and key not in self._warming:
            self._warming[key] = asyncio.get_running_loop().create_task(self._warm(engine, environment))
        if environment.layer is not None:
            self._layered.pop(key, None)
            self._layered[key] = None
            if len(self._layered) > MOST_LAYERED:
                self._give_up(next(iter(self._layered)))

    def _give_up(self, key: tuple[str, str]) -> None:
        """Keep no sandboxes ready any more for a layer that was not asked for in a long time."""
        del self._layered[key]
        if (warming := self._warming.pop(key, None)) is not None:
            warming.cancel()
        if (pool := self._pools.pop(key, None)) is not None:
            closing = asyncio.get_running_loop().create_task(pool.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _warm(self, engine: Engine, environment: Environment) -> None:
        with contextlib.suppress(SandboxError, TimeoutError, OSError):
            await engine.warm_up(environment)
        key = (engine.name, environment.digest)
        template = Spec("", environment)
        self._pools[key] = Pool(engine, template, self.settings.pool_size)
        self._pools[key].begin()
