"""Sandboxes that are kept ready, by an engine that can start them ahead and has no walls."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests import probe
from tests.unconfined.conftest import eventually, is_gone

from belljar import Limits, Sandbox
from belljar.engines.base import KernelProcess, Spec
from belljar.engines.registry import Part, Registry
from belljar.engines.unconfined.engine import UnconfinedEngine
from belljar.engines.unconfined.installer import CurrentPython
from belljar.engines.unconfined.process import UnconfinedProcess
from belljar.packages.environment import Environment
from belljar.testing import ENGINE, UnconfinedHost, unconfined

WHO = "import os; os.getpid()"


class AheadEngine(UnconfinedEngine):
    """Starts sandboxes before anyone asks for them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ahead: list[UnconfinedProcess] = []
        self.warmed = 0

    async def warm_up(self, environment: Environment) -> None:
        self.warmed += 1

    async def start_ahead(self, spec: Spec) -> KernelProcess:
        process = await self.start(spec)
        assert isinstance(process, UnconfinedProcess)
        self.ahead.append(process)
        return process

    async def reconfigure(self, process: KernelProcess, spec: Spec) -> bool:
        return spec.limits == Limits() and not spec.env


def make(registry: Registry) -> tuple[AheadEngine, CurrentPython]:
    return AheadEngine(ENGINE), CurrentPython(ENGINE, registry.settings)


@pytest.fixture
def pooled() -> Iterator[UnconfinedHost]:
    with unconfined(parts={ENGINE: Part(make)}, pool_size=2) as host:
        Sandbox().close()  # the first of its kind; from then on there are some ready
        eventually(lambda: ready(host) == 2)
        yield host


def ready(host: UnconfinedHost) -> int:
    return sum(pool.ready for pool in probe.pools(host))


def engine(host: UnconfinedHost) -> AheadEngine:
    found = host.host.registry.engine(ENGINE)
    assert isinstance(found, AheadEngine)
    return found


def pids(host: UnconfinedHost) -> list[int]:
    return [probe.kernel_pid(process) for process in engine(host).ahead if process.alive]


def test_a_ready_one_is_taken_and_another_is_made(pooled: UnconfinedHost):
    before = pids(pooled)
    with Sandbox() as sandbox:
        assert sandbox.run(WHO).value in before
        eventually(lambda: ready(pooled) == 2)
        assert engine(pooled).warmed


def test_one_that_does_not_fit_stays_and_a_start_of_its_own_is_made(pooled: UnconfinedHost):
    before = pids(pooled)
    with Sandbox(limits=Limits(memory_mb=300)) as sandbox:
        assert sandbox.run(WHO).value not in before
    assert ready(pooled) == 2


def test_one_that_died_in_the_pool_is_not_given_away(pooled: UnconfinedHost):
    before = pids(pooled)
    for pid in before:
        os.kill(pid, 9)
    with Sandbox() as sandbox:
        assert sandbox.run(WHO).value not in before
    eventually(lambda: ready(pooled) == 2)


def test_the_pool_ends_with_its_host():
    with unconfined(parts={ENGINE: Part(make)}, pool_size=2) as host:
        Sandbox().close()
        eventually(lambda: ready(host) == 2)
        left = pids(host)
    assert [pid for pid in left if not is_gone(pid)] == []
