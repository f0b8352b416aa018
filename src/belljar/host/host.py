"""The host: a process that owns sandboxes. It makes them, keeps some ready, and ends them all when it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from belljar.engines.base import Engine, EngineHealth, KernelProcess, Spec
from belljar.engines.registry import FACTORIES, Registry
from belljar.errors import InvalidRequest, SandboxClosed, SandboxError, StartFailed
from belljar.host.network import Network
from belljar.host.pool import Pool
from belljar.host.session import Session
from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar.settings import Settings

READY_TIMEOUT_S = 60
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
        session.is_set_up = is_pooled
        try:
            if not is_pooled or spec.env or spec.policy.network or spec.limits != Limits():
                await session.configure()
            if spec.policy.network:
                await network.egress()
        except BaseException:
            await self.close_session(session)
            raise
        self._prepare_more(engine, spec.environment)
        return session

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

    async def _process(self, engine: Engine, spec: Spec) -> tuple[KernelProcess, bool]:
        """A process for a sandbox, and whether it comes from the pool."""
        pool = self._pools.get((engine.name, spec.environment.digest))
        process = await pool.take(spec) if pool is not None and not spec.policy.mounts else None
        if process is not None:
            return process, True
        return await (engine.start(spec) if pool is None else pool.start(spec)), False

    async def close_session(self, session: Session) -> None:
        """End one sandbox."""
        self.sessions.pop(session.spec.id, None)
        await session.close()

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
                    self._pools[key].refill()
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise StartFailed(f"no sandbox could be kept ready within {READY_TIMEOUT_S} s") from None

    async def close(self) -> None:
        """End everything this host owns."""
        self._closed = True
        for task in self._warming.values():
            task.cancel()
        await asyncio.gather(*self._warming.values(), *self._closing, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()), return_exceptions=True)
        await asyncio.gather(*(session.close() for session in self.sessions.values()), return_exceptions=True)
        self.sessions.clear()
        self._pools.clear()
        await self.registry.close()

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
        self._pools[key].refill()
