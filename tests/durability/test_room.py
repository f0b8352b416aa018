"""Room on a full host: idle durable sandboxes sleep, as many as there are callers, and one that cannot costs no other."""

from __future__ import annotations

import asyncio

import pytest
from tests.durability.conftest import MakeHost, saved

from belljar import Sandbox
from belljar.host import admission, life


def test_as_many_sleep_as_wait_for_a_place(another: MakeHost, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admission, "WAIT_S", 10.0)
    host = another(max_sandboxes=3)
    idle = [Sandbox("native", durable=True) for _ in range(3)]
    for sandbox in idle:
        sandbox.run("x = 1")
        saved(host, sandbox.id)

    async def enter() -> None:
        await asyncio.gather(*(host.host.enter(f"number {number}") for number in range(3)))

    host.background.wait(enter())
    assert host.host.sessions == {}
    for _ in range(3):
        host.host.admission.leave()
    assert [sandbox.run("x").value for sandbox in idle] == [1, 1, 1]


def test_one_that_cannot_be_saved_does_not_keep_others_from_making_room(
    another: MakeHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(admission, "WAIT_S", 15.0)
    monkeypatch.setattr(life, "PATIENCE_S", 1.0)
    monkeypatch.setattr(life, "LEAST_PATIENCE_S", 0.5)
    host = another(max_sandboxes=2)
    hostile, idle = Sandbox("native", durable=True), Sandbox("native", durable=True)
    hostile.run("class Slow:\n    def __reduce__(self):\n        while True: pass\nslow = Slow()")
    idle.run("x = 1")
    with Sandbox("native") as third:
        assert third.run("1").value == 1
        assert (hostile.id in host.host.sessions, idle.id in host.host.sessions) == (True, False)
    assert idle.run("x").value == 1
