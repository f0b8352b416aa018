"""Sandboxes made ahead: behind their walls, configured, never used. One pool for all engines."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from dataclasses import replace

from belljar.engines.base import Engine, KernelExited, KernelProcess, Spec, ignore
from belljar.errors import SandboxError
from belljar.host.session import configuration


class Pool:
    """Keeps a few default sandboxes of one engine and environment ready."""

    def __init__(self, engine: Engine, template: Spec, size: int) -> None:
        self.engine = engine
        self.template = template
        self.size = size
        self._ready: deque[KernelProcess] = deque()
        self._refill: asyncio.Task[None] | None = None
        self._closed = False

    async def take(self, spec: Spec) -> KernelProcess | None:
        """A ready process that now has this spec; None when there is none."""
        while self._ready:
            process = self._ready.popleft()
            self.refill()
            if process.alive and await self.engine.settle(process, spec):
                return process
            await process.close()
        self.refill()
        return None

    def refill(self) -> None:
        """Make what is missing, one at a time, in the background."""
        if not self._closed and (self._refill is None or self._refill.done()):
            self._refill = asyncio.get_running_loop().create_task(self._fill())

    async def close(self) -> None:
        """End what is ready."""
        self._closed = True
        if self._refill is not None:
            self._refill.cancel()
            with contextlib.suppress(asyncio.CancelledError, SandboxError):
                await self._refill
        while self._ready:
            await self._ready.popleft().close()

    @property
    def ready(self) -> int:
        """How many could be taken now."""
        return sum(process.alive for process in self._ready)

    async def _fill(self) -> None:
        while len(self._ready) < self.size and not self._closed:
            spec = replace(self.template, id=str(uuid.uuid4()))
            try:
                process = await self.engine.start(spec)
            except SandboxError:  # a sandbox that somebody waits for will say why
                return
            try:
                await process.request(configuration(spec, warm=True), ignore)
            except KernelExited:
                await process.close()
                continue
            except asyncio.CancelledError:
                await process.close()
                raise
            self._ready.append(process)
