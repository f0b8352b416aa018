"""Belljar as it is measured: the public Sandbox, on a host with or without sandboxes kept ready."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from belljar import Execution, Policy, Sandbox, compose
from belljar.engines.native.engine import NativeEngine
from belljar.engines.native.process import NativeProcess
from belljar.engines.options import WarmStart
from belljar.packages.environment import Environment
from belljar.service.base import LIBRARY
from belljar.settings import Settings

ENGINE = "native"
POOLED, FORKED = "belljar, pooled", "belljar, by fork"
WASM, SNAPSHOT = "wasm", "belljar, from snapshot"
LONGEST_S = 10.0
BARE = Policy(packages="none")
PAUSE_S = 0.5  # before a start on wasm: lets what the round before left behind come to its end


class Belljar:
    """A host of its own, warmed up. With `pool_size` 0 every sandbox is made when it is asked for."""

    def __init__(
        self, pool_size: int, engine: str = ENGINE, policy: Policy | None = None, state_dir: Path | None = None
    ) -> None:
        settings = replace(Settings.load(), pool_size=pool_size)
        self._here = compose.LocalHost(replace(settings, state_dir=state_dir) if state_dir else settings)
        self._engine = engine
        self._policy = policy or Policy()
        self._environment: Environment | None = None

    def __enter__(self) -> Belljar:
        self._environment = self._here.background.wait(self._warm_up())
        self.create().close()
        self.fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._here.close()

    def fill(self) -> None:
        """Wait until all that is made ahead is there, so that its making is not measured with the next sandbox."""
        if self._here.settings.pool_size and self._environment:
            host = self._here.host
            self._here.background.wait(host.pools.ready(host.registry.engine(self._engine), self._environment))
        self._here.background.wait(asyncio.wait_for(self._keepers(), LONGEST_S))

    def create(self) -> Sandbox:
        """A sandbox on this host."""
        with self.in_charge():
            return Sandbox(self._engine, policy=self._policy)

    def first_answer(self, code: str) -> float:
        """Milliseconds from nothing to the result of the first run; how the sandbox ends is not part of it."""
        time.sleep(PAUSE_S if self._engine == WASM else 0)
        started = time.perf_counter()
        with self.create() as sandbox:
            checked(sandbox.run(code))
            taken = (time.perf_counter() - started) * 1000
        self.fill()  # or whoever is measured next would wait for the same processors
        return taken

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Make this the process's host for the block: sandboxes made in it, by any thread, are made here."""
        with compose.using(self._here):
            yield

    def pids(self, sandbox: Sandbox) -> list[int]:
        """A sandbox's own processes: its keeper and its kernel."""
        session = self._here.host.session(LIBRARY, sandbox.id)
        assert session is not None
        process = session.process
        assert isinstance(process, NativeProcess)
        assert process.kernel is not None
        assert process.keeper is not None
        return [_pid(process.keeper.pidfd), _pid(process.kernel.pidfd)]

    async def _keepers(self) -> None:
        engine = self._here.host.registry.engine(self._engine)
        while isinstance(engine, NativeEngine) and engine.in_reserve < self._here.settings.reserve_size:
            await asyncio.sleep(0.002)

    async def _warm_up(self) -> Environment:
        host = self._here.host
        engine = await host.registry.choose(self._engine)
        environment = await host.environment(host.registry.installer(engine.name), self._policy)
        if isinstance(engine, WarmStart):
            await engine.warm_up(environment)
        return environment


def checked(execution: Execution) -> Execution:
    """The execution, unless it failed: a failure must not pass for a fast answer."""
    if execution.status != "ok":
        raise RuntimeError(f"the code failed while it was measured: {execution.error}")
    return execution


def _pid(pidfd: int) -> int:
    with open(f"/proc/{os.getpid()}/fdinfo/{pidfd}", encoding="ascii") as facts:
        return next(int(line.split()[1]) for line in facts if line.startswith("Pid:"))
