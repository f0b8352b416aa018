"""The pools of a host: one for each engine and environment that sandboxes were made of."""

from __future__ import annotations

import asyncio
import contextlib

from belljar.engines.base import Engine, KernelProcess, Spec
from belljar.engines.options import WarmStart
from belljar.errors import SandboxError, StartFailed
from belljar.host.pool import Pool, WarmEngine
from belljar.packages.environment import Environment

READY_TIMEOUT_S = 60
MOST_LAYERED = 4  # pools of environments with a layer

Key = tuple[str, str]  # of an engine's name and an environment's digest


class Pools:
    """Hands out processes, from a pool when one fits, and fills pools in the background."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pools: dict[Key, Pool] = {}
        self._warming: dict[Key, asyncio.Task[None]] = {}
        self._layered: dict[Key, None] = {}  # whose environment has a layer, the oldest first
        self._closing: set[asyncio.Task[None]] = set()

    async def process(self, engine: Engine, spec: Spec) -> KernelProcess:
        """A process for a sandbox, from a pool when one fits.

        Raises:
            SandboxError: when it cannot be started.
        """
        pool = self._pools.get((engine.name, spec.environment.digest))
        if pool is None:
            return await engine.start(spec)
        return await pool.take(spec) or await pool.start(spec)

    def prepare_more(self, engine: Engine, environment: Environment) -> None:
        """After the first sandbox of a kind: warm its environment up, then keep some ready. No caller waits for it."""
        key = (engine.name, environment.digest)
        if not isinstance(engine, WarmStart):
            return
        if self._size and key not in self._warming:
            self._warming[key] = asyncio.get_running_loop().create_task(self._warm(engine, environment))
        if environment.layer is not None:
            self._layered.pop(key, None)
            self._layered[key] = None
            if len(self._layered) > MOST_LAYERED:
                self._give_up(next(iter(self._layered)))

    async def ready(self, engine: Engine, environment: Environment) -> None:
        """Wait until the next sandbox of this kind comes from a full pool.

        Raises:
            StartFailed: when that does not happen in time.
        """
        if not self._size:
            raise StartFailed("no sandboxes are kept ready: BELLJAR_POOL_SIZE is 0")
        if not isinstance(engine, WarmStart):
            raise StartFailed(f"the {engine.name} engine starts no sandboxes ahead")
        self.prepare_more(engine, environment)
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
        """End every process that is ready."""
        for task in self._warming.values():
            task.cancel()
        await asyncio.gather(*self._warming.values(), *self._closing, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()), return_exceptions=True)
        self._pools.clear()

    def _give_up(self, key: Key) -> None:
        """Keep no processes ready any more for a layer that was not asked for in a long time."""
        del self._layered[key]
        if (warming := self._warming.pop(key, None)) is not None:
            warming.cancel()
        if (pool := self._pools.pop(key, None)) is not None:
            closing = asyncio.get_running_loop().create_task(pool.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _warm(self, engine: WarmEngine, environment: Environment) -> None:
        with contextlib.suppress(SandboxError, TimeoutError, OSError):
            await engine.warm_up(environment)
        key = (engine.name, environment.digest)
        self._pools[key] = Pool(engine, Spec("", environment), self._size)
        self._pools[key].begin()
