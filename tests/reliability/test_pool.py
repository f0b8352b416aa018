"""The pool: as many sandboxes as it should have, also when it is looked after while they are being made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests import probe
from tests.reliability.traces import descendants, eventually

from belljar import Policy, Sandbox, compose
from belljar.engines.native import reserve
from belljar.settings import Settings

BARE = Policy(packages="none")


class Full:
    """A host whose pool and reserve are full."""

    def __init__(self, host: compose.LocalHost) -> None:
        self.host = host
        self.engine: Any = probe.engine(host, "native")
        assert eventually(lambda: bool(probe.pools(host)), 20)
        self.pool = probe.only_pool(host)
        assert eventually(self.is_full, 20)

    def is_full(self) -> bool:
        return bool(self.pool.ready == 2 and self.engine.in_reserve == 1)

    def processes(self) -> int:
        """Of its jail."""
        return len(descendants(self.engine.outermost()[0]))


@pytest.fixture
def full(native: None) -> Iterator[Full]:
    host = compose.LocalHost(replace(Settings.load(), pool_size=2, reserve_size=1))
    with compose.using(host):
        Sandbox("native", policy=BARE).close()
        yield Full(host)
    host.close()


def test_what_is_made_while_the_dead_are_taken_away_is_kept(full: Full):
    async def begin_anew() -> None:
        for process in probe.ready(full.pool):
            await process.close()
        while full.pool.ready < full.pool.size:
            await full.pool.drop_dead()
            full.pool.refill()
            await asyncio.sleep(0.001)

    before = full.processes()
    full.host.background.wait(asyncio.wait_for(begin_anew(), 20))
    assert eventually(full.is_full)
    assert eventually(lambda: full.processes() == before)


def test_it_is_filled_again_and_so_is_the_reserve_after_it(full: Full, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reserve, "REFILL_AFTER_S", 3600.0)
    with Sandbox("native", policy=BARE) as sandbox:
        assert sandbox.run("6 * 7").value == 42
    assert eventually(full.is_full)
