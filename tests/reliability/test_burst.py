"""More than a host has room for, all at once: a queue with a bound, busy beyond it, no mix-up, and then as before."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests import probe

from belljar import HostBusy, Sandbox, compose
from belljar.compose import LocalHost
from belljar.settings import Settings


@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=pytest.mark.long)])
def test_a_burst_of_ten_times_what_there_is_room_for(
    native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
):
    monkeypatch.setattr("belljar.host.admission.WAIT_S", 0.3)
    settings = replace(Settings.load(), state_dir=tmp_path, pool_size=2, reserve_size=0, max_sandboxes=4, max_queue=8)
    host = LocalHost(settings)

    def use(number: int) -> str:
        try:
            sandbox = Sandbox("native", durable=number % 4 == 0)
        except HostBusy as busy:
            return "busy" if busy.retry_after_s > 0 else "told nonsense"
        try:
            sandbox.run(f"x = {number}; import time; time.sleep(0.02)")
            return "right" if sandbox.run("x").value == number else "somebody else's"
        except HostBusy:  # it slept meanwhile, to make room, and finds none now
            return "busy"
        finally:
            sandbox.close()

    with compose.using(host), ThreadPoolExecutor(40) as pool:
        ended, until = Counter(pool.map(use, range(120))), time.monotonic() + seconds
        while time.monotonic() < until:
            ended.update(pool.map(use, range(120)))
        assert set(ended) == {"right", "busy"}
        assert ended["right"] >= 4
        assert (host.host.admission.waiting, probe.places_taken(host), host.host.sessions()) == (0, 0, [])
        assert [use(number) for number in range(4)] == ["right"] * 4
        assert host.host.status()["counters"]["busy"] >= ended["busy"]
    host.close()
    assert list((tmp_path / "checkpoints").glob("*/*")) == []
