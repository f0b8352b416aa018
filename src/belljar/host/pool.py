"""Sandboxes made ahead: behind their walls, configured, never used. One pool for all engines."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from dataclasses import replace
from typing import Protocol

from belljar.engines.base import Engine, KernelProcess, Spec
from belljar.engines.options import WarmStart
from belljar.errors import SandboxError

REFILLS = 2  # at once
CHECK_S = 1.0  # a process that died is replaced before a sandbox needs it
REFILL_AFTER_S = 0.05  # the sandbox that was taken has something to run now: let it


class WarmEngine(Engine, WarmStart, Protocol):
    """An engine that can start sandboxes ahead."""


class Pool:
    """Keeps a few default sandboxes of an engine and an environment ready."""

    def __init__(self, engine: WarmEngine, template: Spec, size: int) -> None:
        self.engine = engine
        self.template = template
        self.size = size
        self._ready: deque[KernelProcess] = deque()
        self._refills: set[asyncio.Task[None]] = set()
        self._coming = 0
        self._awaited = 0
        self._closed = False
        self._checking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Fill it, and keep it full from now on."""
        self.refill()
        self._checking = asyncio.get_running_loop().create_task(self._check())

    async def take(self, spec: Spec) -> KernelProcess | None:
        """A ready process that now has this spec; None when there is none, or the spec needs a start of its own."""
        while self._ready:
            process = self._ready.popleft()
            try:
                if process.alive and await self.engine.reconfigure(process, spec):
                    asyncio.get_running_loop().call_later(REFILL_AFTER_S, self.refill)
                    return process
            except BaseException:
                await process.close()
                raise
            if process.alive:
                self._ready.appendleft(process)
                return None
            await process.close()
        return None

    async def start(self, spec: Spec) -> KernelProcess:
        """Start a process that a caller waits for. No refill begins before it is up."""
        self._awaited += 1
        try:
            return await self.engine.start(spec)
        finally:
            self._awaited -= 1
            asyncio.get_running_loop().call_later(REFILL_AFTER_S, self.refill)

    def refill(self) -> None:
        """Begin to start what is missing, a few at a time, in the background, unless a caller waits for a start."""
        if self._closed or self._awaited:
            return
        while len(self._refills) < REFILLS and len(self._ready) + self._coming < self.size:
            self._coming += 1
            task = asyncio.get_running_loop().create_task(self._make_one())
            self._refills.add(task)
            task.add_done_callback(self._refills.discard)

    async def close(self) -> None:
        """End what is ready."""
        self._closed = True
        tasks = [*self._refills, *([self._checking] if self._checking is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._ready:
            await self._ready.popleft().close()

    @property
    def ready(self) -> int:
        """How many could be taken now."""
        return sum(process.alive for process in self._ready)

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            await self.drop_dead()
            self.refill()

    async def drop_dead(self) -> None:
        """Close what has died in the pool, so that refill() counts what can be taken."""
        dead = [process for process in self._ready if not process.alive]
        self._ready = deque(process for process in self._ready if process.alive)
        await asyncio.gather(*(process.close() for process in dead), return_exceptions=True)

    async def _make_one(self) -> None:
        spec = replace(self.template, id=str(uuid.uuid4()))
        try:
            process = await self.engine.start_ahead(spec)
            self._ready.append(process)  # not in one line: there may be another queue by then
        except (SandboxError, OSError):
            return  # the next start that a caller waits for raises the reason
        finally:
            self._coming -= 1
        if len(self._ready) >= self.size and not self._awaited:
            with contextlib.suppress(SandboxError, OSError):
                await self.engine.warm_up(spec.environment)
        asyncio.get_running_loop().call_soon(self.refill)
