"""Durable sandboxes by a clock that the test moves, a store in memory, and hosts that share it."""

from __future__ import annotations

import threading

import pytest
from tests import probe
from tests.unconfined.conftest import eventually

from belljar import HostBusy, Sandbox, SandboxClosed, SandboxMissing, SandboxTaken
from belljar.service.base import SandboxInfo
from belljar.testing import UnconfinedHost, World, unconfined


def is_asleep(host: UnconfinedHost, id: str) -> bool:
    found = host.world.store.sandbox(id)
    return found is not None and found.state == "asleep"


def test_one_that_was_not_used_for_long_sleeps_and_wakes_with_its_state():
    with unconfined(idle_s=1000) as host:
        sandbox = Sandbox(durable=True)
        sandbox.run("x = [1, 2]")
        sandbox.files.write("file", "text")
        for code in ("y = 1", "x.append(3)"):
            sandbox.run(code)
            eventually(lambda: probe.has_looked_at_all(host))
            host.world.clock.advance(900)
        eventually(lambda: probe.has_looked_at_all(host))
        assert not is_asleep(host, sandbox.id)
        assert host.host.status()["counters"].get("hibernated") is None
        host.world.clock.advance(900)
        eventually(lambda: is_asleep(host, sandbox.id))
        assert host.world.store.sandbox(sandbox.id).reason == "it was put to sleep after 1,000 s without use"
        woken = sandbox.run("[x, open('file').read()]")
        assert (woken.value, woken.state) == ([[1, 2, 3], "text"], "restored")


def test_one_that_sleeps_as_asked_is_woken_by_its_next_run(host: UnconfinedHost):
    sandbox = Sandbox(durable=True)
    sandbox.run("x = 1")
    assert sandbox.hibernate()
    assert is_asleep(host, sandbox.id)
    assert host.host.sessions() == []
    assert sandbox.run("x").value == 1


def test_one_that_is_older_than_allowed_is_closed():
    with unconfined(max_age_s=5000) as host:
        sandbox = Sandbox(durable=True)
        sandbox.run("x = 1")
        host.world.clock.advance(5001)
        eventually(lambda: host.world.store.sandbox(sandbox.id).state == "closed")
        with pytest.raises(SandboxClosed, match=r"older than 5,000 s"):
            sandbox.run("x")


def test_what_was_closed_is_forgotten_after_the_days_of_its_history():
    with unconfined(history_days=2) as host:
        sandbox = Sandbox(durable=True)
        sandbox.close()
        assert host.world.store.sandbox(sandbox.id).state == "closed"
        host.world.clock.advance(3 * 86_400)
        eventually(lambda: host.world.store.sandbox(sandbox.id) is None)


def test_a_crash_brings_back_the_state_before_it(host: UnconfinedHost):
    sandbox = Sandbox(durable=True)
    sandbox.run("x = 5")
    crashed = sandbox.run("x = 6\nimport os; os.abort()")
    assert (crashed.status, crashed.state) == ("crashed", "restored")
    after = sandbox.run("x")
    assert (after.value, after.state) == (5, "restored")


def test_the_next_host_of_the_same_world_continues_where_the_last_one_ended(world: World):
    with unconfined(world):
        first = Sandbox(durable=True, name="mine")
        first.run("x = {'a': 1}")
    with unconfined(world) as host:
        again = Sandbox.connect(first.id)
        assert (again.name, again.run("x").value) == ("mine", {"a": 1})
        assert [run.code for run in world.store.runs(first.id, 9)][-1] == "x = {'a': 1}"
        assert host.host.status()["counters"]["restored"] == 1


def test_two_hosts_do_not_have_one_sandbox_at_a_time(world: World):
    with unconfined(world) as first:
        sandbox = first.sandbox(durable=True)
        sandbox.run("x = 1")
        with unconfined(world):
            with pytest.raises(SandboxTaken):
                Sandbox.connect(sandbox.id)
            assert first.host.session("", sandbox.id) is not None
        sandbox.hibernate()
        with unconfined(world):
            assert Sandbox.connect(sandbox.id).run("x").value == 1


def test_what_a_host_had_that_ended_without_a_word_is_taken_over(world: World):
    with unconfined(world) as first:
        sandbox = first.sandbox(durable=True)
        sandbox.run("x = 1")
        sandbox.hibernate()
        sandbox.run("x")
        lost = world.store.sandbox(sandbox.id).host
        world.locks.lose(lost)
        with unconfined(world) as second:
            woken = Sandbox.connect(sandbox.id).run("x")
            assert (woken.value, "its host ended without closing it" in woken.state_reason) == (1, True)
            assert second.host.status()["counters"]["host_swept"] == 1


def test_an_id_of_another_owner_or_of_nothing_is_unknown(host: UnconfinedHost):
    sandbox = Sandbox(durable=True)
    for owner, name in (("ann", sandbox.id), ("", "00000000-0000-4000-8000-000000000000")):
        with pytest.raises(SandboxMissing, match=r"^there is no sandbox with this id"):
            host.background.wait(host.service.get(owner, name))


def test_one_that_waits_for_a_place_gets_it_when_another_is_closed():
    with unconfined(max_sandboxes=1):
        first, made = Sandbox(), []
        starting = threading.Thread(target=lambda: made.append(Sandbox()))
        starting.start()
        first.close()
        starting.join()
        assert made[0].run("1").value == 1


def test_a_durable_one_that_is_idle_makes_room_and_wakes_when_there_is_room_again():
    with unconfined(max_sandboxes=1) as host:
        durable = Sandbox(durable=True)
        durable.run("x = 1")
        with Sandbox() as other:
            assert other.run("2").value == 2
            assert is_asleep(host, durable.id)
        assert durable.run("x").value == 1


def test_nothing_waits_where_nothing_may():
    with unconfined(max_sandboxes=1, max_queue=0), Sandbox():
        with pytest.raises(HostBusy):
            Sandbox()


@pytest.mark.parametrize("durable", [False, True])
def test_its_last_use_is_when_the_last_act_ended_also_when_it_sleeps(host: UnconfinedHost, durable: bool):
    def info() -> SandboxInfo:
        (found,) = host.background.wait(host.service.list(""))
        assert found == host.background.wait(host.service.get("", found.id))
        return found

    sandbox, clock = Sandbox(durable=durable), host.world.clock
    for act in (lambda: sandbox.run("x = 1"), sandbox.variables, sandbox.files.list):
        clock.advance(100)
        act()
        assert (info().state, info().last_used) == ("live", clock.now())
    last = clock.now()
    clock.advance(100)
    assert info().last_used == last
    if durable:
        assert sandbox.hibernate()
        assert (info().state, info().last_used) == ("asleep", last)


def test_what_a_host_had_that_ended_without_a_word_is_said_to_sleep(world: World):
    with unconfined(world) as first:
        sandbox = first.sandbox(durable=True)
        with unconfined(world) as second:
            (shown,) = second.background.wait(second.service.list(""))
            assert shown.state == "live"
            world.locks.held.discard(world.store.sandbox(sandbox.id).host)
            (shown,) = second.background.wait(second.service.list(""))
            assert shown.state == "asleep"
            assert second.background.wait(second.service.get("", sandbox.id)).state == "asleep"
