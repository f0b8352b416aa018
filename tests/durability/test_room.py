"""A full host makes room for each who waits, and code that does not let itself be saved cannot prevent that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.durability.conftest import MakeHost, saved

from belljar import Sandbox
from belljar.durable import expiry
from belljar.host import admission

STUBBORN = "class Slow:\n    def __reduce__(self):\n        while True: pass\nslow = Slow()"


def test_all_who_wait_at_once_get_places_of_idle_sandboxes(another: MakeHost, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admission, "WAIT_S", 15.0)
    another(max_sandboxes=2)
    idle = [Sandbox("native", durable=True) for _ in range(2)]
    for sandbox in idle:
        sandbox.run("x = 1").raise_for_status()
    with ThreadPoolExecutor(2) as pool:
        fresh = list(pool.map(lambda _: Sandbox("native"), range(2)))
        assert [ran.status for ran in pool.map(lambda each: each.run("1"), fresh)] == ["ok", "ok"]
    for sandbox in fresh:
        sandbox.close()
    assert [sandbox.run("x").state for sandbox in idle] == ["restored", "restored"]


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_sandbox_that_is_never_done_saving_does_not_keep_others_from_making_room(
    another: MakeHost, monkeypatch: pytest.MonkeyPatch, is_saved: bool
):
    monkeypatch.setattr(admission, "WAIT_S", 15.0)
    monkeypatch.setattr(expiry, "SLOW_S", 1.0)
    host = another(max_sandboxes=2)
    stubborn, honest = Sandbox("native", durable=True), Sandbox("native", durable=True)
    stubborn.run(STUBBORN).raise_for_status()
    honest.run("x = 1").raise_for_status()
    if is_saved:
        saved(host, honest.id)
    with Sandbox("native") as fresh:
        assert fresh.run("1").value == 1
    assert honest.run("x").state == "restored"
    stubborn.close()
