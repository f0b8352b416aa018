"""From one CPython to another, natively: every pair that this machine has next to each other, both ways."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.native.interpreters import find_python
from tests.state.programs import STRUCTURES, USED_STRUCTURES, USES_STRUCTURES

from belljar import compose
from belljar.durable import saving
from belljar.host.host import Host, Plan
from belljar.host.session import Session
from belljar.packages.environment import Environment
from belljar.service.base import RunRequest
from belljar.state.envelope import unseal
from belljar.state.keys import id_of
from belljar.store.base import SandboxRecord

KEY = bytes(32)
PAIRS = [("3.10", "3.13"), ("3.13", "3.10"), ("3.11", "3.12"), ("3.12", "3.11"), ("3.10", "3.10"), ("3.13", "3.13")]


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.usefixtures("native")
def test_a_state_moves_between_pythons(before: str, after: str):
    pythons = find_python(before), find_python(after)
    if None in pythons:
        pytest.skip(f"this machine has not both of Python {before} and {after}")
    here = compose.local_host()
    here.background.wait(move(here.host, *pythons, ["made"] if before != after else []))  # type: ignore[arg-type]


async def move(host: Host, before: Path, after: Path, left_behind: list[str]) -> None:
    first = await start(host, before)
    try:
        done = await first.run(RunRequest(STRUCTURES, 30))
        assert done.error is None, done.error
        saved = await saving.checkpoint(first, KEY, None, "somebody")
        assert saved.skipped == {}
    finally:
        await host.close_session(first)
    second = await start(host, after)
    try:
        report = await saving.restore(second, unseal(saved.to_bytes(), {id_of(KEY): KEY}, "somebody"))
        assert list(report.skipped) == left_behind
        assert (await second.run(RunRequest(USES_STRUCTURES, 30))).value == USED_STRUCTURES
    finally:
        await host.close_session(second)


async def start(host: Host, python: Path) -> Session:
    """A sandbox with that Python and nothing else."""
    engine, environment = await host.registry.choose("native"), Environment(python, digest=f"only-{python.name}")
    record = SandboxRecord(f"moving-{uuid.uuid4()}", engine.name, host.now(), host.now())
    return await host.start(record, Plan(engine, host.registry.installer("native"), environment))
