"""Durable sandboxes on this machine: what they have survives crashes, sleep, and handles that were lost."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
import uuid
from pathlib import Path

import pytest
from tests import probe
from tests.durability.conftest import MakeHost, limits, live, saved
from tests.reliability.traces import eventually

from belljar import (
    AsyncSandbox,
    HostBusy,
    InvalidRequest,
    Limits,
    Sandbox,
    SandboxClosed,
    SandboxMissing,
    SandboxTaken,
    compose,
)
from belljar.compose import LocalHost


def checkpoints(host: LocalHost, id: str) -> list[Path]:
    return sorted((host.settings.state_dir / "checkpoints" / id).glob("*"), key=lambda path: path.stat().st_mtime)


def test_a_sandbox_that_is_not_durable_touches_no_file(another: MakeHost):
    host = another()
    with Sandbox("native") as sandbox:
        sandbox.run("x = 1")
        with pytest.raises(InvalidRequest, match="durable"):
            sandbox.hibernate()
    host.close()
    assert not host.settings.state_dir.exists()


def test_a_crash_goes_on_from_the_last_checkpoint_and_keeps_the_files(here: LocalHost):
    with Sandbox("native", durable=True, files={"first.txt": "1"}) as sandbox:
        sandbox.run("import math as m\nx = 41\ndef f(n): return n + x\nlock = __import__('threading').Lock()")
        saved(here, sandbox.id)
        crashed = sandbox.run("x = 0; open('late.txt', 'w').write('2'); import os; os._exit(3)")
        assert (crashed.status, crashed.state) == ("crashed", "restored")
        assert "continues from the state after run 1" in crashed.state_reason
        ran = sandbox.run("[f(1), m.sqrt(4), open('first.txt').read(), open('late.txt').read(), 'lock' in globals()]")
        assert (ran.value, ran.state) == ([42, 2.0, "1", "2", False], "restored")
        assert "after run 1 was restored, without lock: " in ran.state_reason
        assert sandbox.run("x").state == "kept"
        killed = sandbox.run("import signal\nsignal.signal(2, lambda *_: None)\nwhile True: pass", timeout=1)
        assert (killed.status, killed.state) == ("timeout", "restored")
        assert sandbox.run("x").value == 41
        failed = sandbox.run("x = 42; 1 / 0")
        assert (failed.status, sandbox.run("x").value) == ("error", 42)
        sandbox.close()


def test_sleep_frees_the_sandbox_and_the_next_use_wakes_it(here: LocalHost, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "belljar")
    sandbox = Sandbox("native", durable=True, env={"SECRET": "s3"}, limits=Limits(memory_mb=256), name="nap")
    sandbox.run("x = [1, 2]")
    sandbox.files.write("a.txt", "a")
    assert sandbox.hibernate()
    assert sandbox.hibernate()
    assert live(here, sandbox.id) is None
    assert sandbox.files.read("a.txt") == b"a"
    ran = sandbox.run("import os\n[x, os.environ['SECRET']]")
    assert (ran.value, ran.state, ran.execution_count) == ([[1, 2], "s3"], "restored", 2)
    assert ran.state_reason == "the state after run 1 was restored: it was put to sleep, as asked"
    again = Sandbox.connect(sandbox.id)  # the very same: this process has it
    again.run("x.append(3)")
    assert sandbox.run("x").value == [1, 2, 3]
    assert (again.name, limits(here, again.id)) == ("nap", Limits(memory_mb=256))
    sandbox.close()
    with pytest.raises(SandboxClosed):
        sandbox.hibernate()
    with pytest.raises(SandboxClosed):
        again.run("1")
    with pytest.raises(SandboxClosed):
        Sandbox.connect(sandbox.id)
    assert checkpoints(here, sandbox.id) == []
    runs = [record for record in caplog.records if record.event == "run"]
    assert {record.sandbox_id for record in runs} == {sandbox.id}
    assert [record.execution_id for record in runs] == [f"{sandbox.id}/{number}" for number in range(1, 5)]


def test_nothing_is_written_when_nothing_has_changed_and_the_history_tells_each_run(here: LocalHost):
    with Sandbox("native", durable=True) as sandbox:
        sandbox.run("x = 1")
        saved(here, sandbox.id)
        before = checkpoints(here, sandbox.id)
        sandbox.run("print('hello'); 1 + 1")
        sandbox.run("y" + " " * 30_000)
        sandbox.run("'\\ud800'\ud800")
        saved(here, sandbox.id)
        assert checkpoints(here, sandbox.id) == before
        assert here.host.journal.counters["unchanged"] >= 1
        store = probe.durability(here).ledger.store
        runs = store.begin(lambda rows: rows.runs(sandbox.id, 10)).result(10)
        assert [(run.count, run.status, run.summary["text"]) for run in runs] == [
            (4, "error", None), (3, "error", None), (2, "ok", "2"), (1, "ok", None),
        ]  # fmt: skip
        assert (runs[2].code, runs[2].summary["stdout"]) == ("print('hello'); 1 + 1", "hello\n")
        assert (len(runs[1].code), runs[1].summary["error"]["code"]) == (20_000, "RUNTIME_ERROR")
        assert runs[0].code.endswith("\\ud800")
        assert runs[3].peak_memory_bytes > 0


def test_leaving_the_block_keeps_it_and_close_does_not(here: LocalHost):
    with Sandbox("native", durable=True) as sandbox:
        sandbox.run("x = 1")
    assert live(here, sandbox.id) is None
    with Sandbox.connect(sandbox.id) as back:
        assert back.run("x").value == 1
    back.close()
    with pytest.raises(SandboxClosed):
        Sandbox.connect(sandbox.id)
    with pytest.raises(SandboxMissing, match="belljar sandboxes list"):
        Sandbox.connect(str(uuid.uuid4()))
    with Sandbox("native") as plain:
        plain.run("x = 2")
        assert Sandbox.connect(plain.id).run("x").value == 2
    with pytest.raises(SandboxClosed):
        Sandbox.connect(plain.id)


def test_a_host_that_was_closed_leaves_its_sandboxes_to_the_next(another: MakeHost):
    first = another()
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1")
    second = another()
    with pytest.raises(SandboxTaken, match=f"belljar sandboxes close {sandbox.id}"):
        Sandbox.connect(sandbox.id)
    first.close()
    assert list((first.settings.state_dir / "hosts").glob("*")) != []  # the second's
    ran = Sandbox.connect(sandbox.id).run("x")
    assert (ran.value, ran.state) == (1, "restored")
    assert "its host was closed" in ran.state_reason
    second.close()
    assert list((first.settings.state_dir / "hosts").glob("*")) == []


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(here: LocalHost):
    sandbox = Sandbox("native", durable=True)
    for number in range(3):
        sandbox.run(f"x = {number}")
        saved(here, sandbox.id)
    sandbox.hibernate()
    _, newer = checkpoints(here, sandbox.id)
    newer.write_bytes(newer.read_bytes()[:-100])
    ran = sandbox.run("x")
    assert (ran.value, ran.state) == (1, "restored")
    assert "after run 2 was restored; a newer one, after run 3, was damaged" in ran.state_reason
    saved(here, sandbox.id)
    sandbox.hibernate()
    for path in checkpoints(here, sandbox.id):
        path.write_bytes(b"torn")
    ran = sandbox.run("globals().get('x')")
    assert (ran.value, ran.state) == (None, "reset")
    assert "no checkpoint could be read, so it starts anew" in ran.state_reason
    sandbox.close()


def test_a_full_disk_costs_the_checkpoint_and_nothing_else(here: LocalHost):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1")
    saved(here, sandbox.id)
    failed = here.host.journal.counters["checkpoint_failed"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
    try:
        assert sandbox.run("import os; big = os.urandom(1 << 20); x = 2").status == "ok"
        assert eventually(lambda: here.host.journal.counters["checkpoint_failed"] > failed, 10)
        assert sandbox.run("x").value == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sandbox.run("x").value == 2  # and there is room again
    saved(here, sandbox.id)
    sandbox.hibernate()
    assert sandbox.run("[x, len(big)]").value == [2, 1 << 20]
    sandbox.close()


def test_what_is_larger_than_the_bound_is_left_out_by_name(another: MakeHost):
    host = another(durable_mb=1)
    sandbox = Sandbox("native", durable=True)
    sandbox.run("import os; big = os.urandom(3 << 20); small = 1")
    saved(host, sandbox.id)
    sandbox.hibernate()
    ran = sandbox.run("['big' in globals(), small]")
    assert (ran.value, ran.state) == ([False, 1], "restored")
    assert "without big" in ran.state_reason
    sandbox.run("open('big.bin', 'wb').write(os.urandom(3 << 20)); open('small.txt', 'w').write('1')")
    sandbox.hibernate()
    ran = sandbox.run("import os; [sorted(os.listdir()), small]")
    assert (ran.value, ran.state) == ([["small.txt"], 1], "restored")
    assert "without big.bin" in ran.state_reason
    sandbox.close()


def test_what_is_idle_sleeps_and_what_is_old_is_closed(another: MakeHost):
    host = another(idle_s=1)
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1")
    assert eventually(lambda: live(host, sandbox.id) is None, 20)
    ran = sandbox.run("x")
    assert (ran.value, ran.state) == (1, "restored")
    assert "after 1 s without use" in ran.state_reason
    host.close()
    host = another(max_age_s=1)
    time.sleep(1)
    with pytest.raises(SandboxClosed, match="BELLJAR_MAX_AGE_S"):
        Sandbox.connect(sandbox.id)
    young = Sandbox("native", durable=True)
    assert eventually(lambda: live(host, young.id) is None, 20)
    with pytest.raises(SandboxClosed, match="older than 1 s"):
        young.run("1")


def test_a_full_host_lets_an_idle_one_sleep_else_it_is_busy(another: MakeHost, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("belljar.host.admission.WAIT_S", 0.5)
    host = another(max_sandboxes=2, max_queue=1)
    idle, plain = Sandbox("native", durable=True), Sandbox("native")
    idle.run("x = 1")
    with Sandbox("native") as third:
        assert third.run("1").value == 1
        assert live(host, idle.id) is None
        with pytest.raises(HostBusy):
            Sandbox("native")
        with pytest.raises(HostBusy):
            idle.run("x")  # it needs a place again, and is not lost for want of it
    assert idle.run("x").value == 1
    plain.close()
    assert host.host.status()["counters"]["busy"] == 2


def test_runs_beyond_the_queue_of_a_sandbox_are_busy_and_all_others_are_done(another: MakeHost):
    another(max_queue=3)

    async def use() -> list[object]:
        async with AsyncSandbox("native") as sandbox:
            acts = [sandbox.run(f"import time; time.sleep(0.05); {number}") for number in range(6)]
            return await asyncio.gather(*acts, return_exceptions=True)

    answers = asyncio.run(use())
    assert [answer.value for answer in answers[:4]] == [0, 1, 2, 3]
    assert [type(answer) for answer in answers[4:]] == [HostBusy, HostBusy]


def test_a_durable_sandbox_of_webassembly_sleeps_and_wakes(another: MakeHost):
    host = another()
    sandbox = Sandbox("wasm", durable=True)
    sandbox.run("import pandas as pd; df = pd.DataFrame({'x': [1, 2]}); open('a', 'w').write('1')")
    sandbox.hibernate()
    ran = sandbox.run("[int(df.x.sum()), open('a').read()]")
    assert (ran.value, ran.state) == ([3, "1"], "restored")
    assert host.host.status()["sandboxes"][sandbox.id]["memory_bytes"] > 1 << 20
    sandbox.close()
    assert compose.local_host() is host
