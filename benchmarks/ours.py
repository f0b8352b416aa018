"""Belljar as it is measured: the public Sandbox, on a host with or without sandboxes kept ready."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

from belljar import Execution, Sandbox, compose
from belljar.engines.native.engine import NativeEngine
from belljar.engines.native.process import NativeProcess
from belljar.settings import Settings

ENGINE = "native"
POOLED, FORKED = "belljar, pooled", "belljar, by fork"


class Belljar:
    """A host of its own, warmed up. With `pool_size` 0 every sandbox is a fresh fork of the warm zygote."""

    def __init__(self, pool_size: int) -> None:
        self._here = compose.LocalHost(replace(Settings.load(), pool_size=pool_size))
        self._environment = compose.base_environment()

    def __enter__(self) -> Belljar:
        self._here.background.wait(self._warm_up())
        with self.in_charge():
            Sandbox(ENGINE).close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._here.close()

    def fill(self) -> None:
        """Wait until the pool is full, so that its work is not measured with the sandbox's."""
        if self._here.settings.pool_size:
            self._here.background.wait(self._here.host.ready(ENGINE, self._environment))

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Make this the process's host for the block: sandboxes made in it, by any thread, are made here."""
        with compose.using(self._here):
            yield

    def pids(self, sandbox: Sandbox) -> list[int]:
        """A sandbox's own processes: its keeper and its kernel."""
        process = self._here.host.sessions[sandbox.id].process
        assert isinstance(process, NativeProcess)
        assert process.kernel is not None
        assert process.keeper is not None
        return [_pid(process.keeper.pidfd), _pid(process.kernel.pidfd)]

    async def _warm_up(self) -> None:
        engine = await self._here.host.registry.choose(ENGINE)
        assert isinstance(engine, NativeEngine)
        await engine.warm_up(self._environment)


def checked(execution: Execution) -> Execution:
    """The execution, unless it failed: a failure must not pass for a fast answer."""
    if execution.status != "ok":
        raise RuntimeError(f"the code failed while it was measured: {execution.error}")
    return execution


def _pid(pidfd: int) -> int:
    with open(f"/proc/{os.getpid()}/fdinfo/{pidfd}", encoding="ascii") as facts:
        return next(int(line.split()[1]) for line in facts if line.startswith("Pid:"))
