"""What hostile code can do to saving: nothing that costs others, the host, or the state before."""

from __future__ import annotations

import logging

import pytest
from tests import probe
from tests.durability.conftest import MakeHost, live, saved
from tests.reliability.traces import eventually

from belljar import Sandbox
from belljar.compose import LocalHost
from belljar.durable import autosave
from belljar.host import host
from belljar.host.journal import Journal

SLOW = "class Slow:\n    def __reduce__(self):\n        while True: pass\nslow = Slow()"


def test_an_object_that_never_finishes_saving_is_stopped_and_the_sandbox_goes_on(
    here: LocalHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(autosave, "PATIENCE_S", 1.0)
    monkeypatch.setattr(autosave, "LEAST_PATIENCE_S", 0.5)
    sandbox, failed = Sandbox("native", durable=True), here.host.journal.counters["checkpoint_failed"]
    sandbox.run("x = 1")
    saved(here, sandbox.id)
    sandbox.run(f"{SLOW}; y = 2")
    assert eventually(lambda: here.host.journal.counters["checkpoint_failed"] > failed, 20)
    assert sandbox.run("[x, y]").value == [1, 2]
    assert sandbox.run("del slow").status == "ok"
    saved(here, sandbox.id)
    sandbox.hibernate()
    assert sandbox.run("[x, y]").value == [1, 2]
    sandbox.close()


def test_an_object_that_ends_python_when_saved_costs_what_came_after_the_last_checkpoint(here: LocalHost):
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1")
    saved(here, sandbox.id)
    sandbox.run("class End:\n    def __reduce__(self): __import__('os')._exit(7)\nend = End(); x = 2")
    session = live(here, sandbox.id)
    assert session is not None
    assert eventually(lambda: not session.process.alive, 20)
    ran = sandbox.run("[x, 'end' in globals()]")
    assert (ran.value, ran.state) == ([1, False], "restored")
    assert "exit code 7" in ran.state_reason
    sandbox.close()


def test_an_object_that_never_finishes_saving_does_not_keep_its_host_from_ending(
    another: MakeHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(host, "LAST_SAVE_S", 2.0)
    ending = another()
    hostile, other = Sandbox("native", durable=True), Sandbox("native", durable=True)
    hostile.run("x = 1")
    hostile.run(SLOW)
    other.run("x = 2")
    ending.close()
    assert "not saved within 2 s" in caplog.text
    another()
    for sandbox, value in ((hostile, 1), (other, 2)):
        ran = Sandbox.connect(sandbox.id).run("x")
        assert (ran.value, ran.state) == (value, "restored")
        assert ran.state_reason.endswith("its host was closed")


def test_an_object_that_never_finishes_saving_keeps_no_other_sandbox_awake(
    another: MakeHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(host, "LAST_SAVE_S", 1.0)
    ending = another(idle_s=1)
    hostile, other = Sandbox("native", durable=True), Sandbox("native", durable=True)
    hostile.run(SLOW)
    assert eventually(lambda: hostile.id in probe.being_put_to_sleep(ending), 20)
    other.run("x = 2")
    assert eventually(lambda: live(ending, other.id) is None, 20)
    assert live(ending, hostile.id) is not None
    ending.close()  # in the middle of that
    assert ending.host.sessions() == []


@pytest.mark.parametrize("count", [1, 12])
def test_values_that_end_python_when_put_back_cost_themselves_and_never_the_sandbox(here: LocalHost, count: int):
    sandbox = Sandbox("native", durable=True, files={"kept.txt": "kept"})
    end = "class End:\n    def __reduce__(self): return __import__('os')._exit, (3,)\n"
    sandbox.run(f"good = 1\n{end}for number in range({count}): globals()[f'end{{number}}'] = End()")
    sandbox.hibernate()
    with Sandbox.connect(sandbox.id) as again:
        ran = again.run("[good, 'end0' in globals(), open('kept.txt').read()]")
        assert (ran.value, ran.state) == ([1, False, "kept"], "restored")
        assert "without end0" in ran.state_reason
        again.close()


@pytest.mark.parametrize(
    "body", ["while True: pass", "while True:\n try:\n  while True: pass\n except BaseException: pass"]
)
def test_a_value_that_is_never_done_being_put_back_costs_itself_and_never_the_sandbox(
    here: LocalHost, monkeypatch: pytest.MonkeyPatch, body: str
):
    monkeypatch.setattr(autosave, "PATIENCE_S", 3.0)
    sandbox = Sandbox("native", durable=True)
    sandbox.run(f"class Slow:\n    def __reduce__(self): return exec, ({body!r},)\nslow, good = Slow(), 1")
    sandbox.hibernate()
    ran = sandbox.run("[good, 'slow' in globals()]")
    assert (ran.value, ran.state) == ([1, False], "restored")
    assert "without slow" in ran.state_reason
    sandbox.close()


def test_what_comes_from_inside_cannot_forge_a_log_line(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "belljar")
    Journal().warn("checkpoint_failed", "id", ValueError('x\nrun sandbox=other status=ok "quoted"'))
    assert caplog.messages == ['checkpoint_failed sandbox=id why="x\\nrun sandbox=other status=ok \\"quoted\\""']
    assert caplog.records[0].why.startswith("x\n")
