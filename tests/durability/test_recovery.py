"""What comes back after the Python of a durable sandbox ended, whatever disturbs that; what does not is named."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest
from tests import probe
from tests.durability.conftest import saved
from tests.reliability.traces import eventually

from belljar import AsyncSandbox, Sandbox, StoreFailed
from belljar.compose import LocalHost
from belljar.durable import saving
from belljar.store.sqlite import SqliteStore

CRASH = "import os; os._exit(1)"


def test_a_recovery_that_was_left_half_way_is_done_again(here: LocalHost, monkeypatch: pytest.MonkeyPatch):
    reached = threading.Event()

    async def hang(*_: object, **__: object) -> None:
        reached.set()
        await asyncio.sleep(1000)

    async def use() -> Any:
        sandbox = AsyncSandbox("native", durable=True)
        await sandbox.run("x = 1")
        await sandbox.run(CRASH)
        with monkeypatch.context() as slow:
            slow.setattr(saving, "load", hang)
            left = asyncio.ensure_future(sandbox.run("x"))
            while not reached.is_set():
                await asyncio.sleep(0.01)
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
        ran = await sandbox.run("x")
        await sandbox.close()
        return ran

    ran = asyncio.run(use())
    assert (ran.value, ran.state) == (1, "restored")
    assert "exit code 1" in ran.state_reason


def test_files_that_were_lost_come_back_also_at_the_second_try(here: LocalHost, monkeypatch: pytest.MonkeyPatch):
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1; open('a.txt', 'w').write('a')")
    saved(here, sandbox.id)
    process: Any = probe.process(sandbox)
    signal.pidfd_send_signal(process.keeper.pidfd, signal.SIGKILL)  # its files go with it

    def fail(*_: object) -> bytes:
        raise StoreFailed("the disk is slow today")

    assert eventually(lambda: not process.alive and not process.keeper.alive, 20)
    with monkeypatch.context() as broken:
        broken.setattr(SqliteStore, "read_checkpoint", fail)
        with pytest.raises(StoreFailed):
            sandbox.run("1")
    ran = sandbox.run("[x, open('a.txt').read()]")
    assert (ran.error, ran.value, ran.state) == (None, [1, "a"], "restored")
    sandbox.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="the ids are those of sandboxes that root makes")
def test_a_file_that_could_not_be_saved_is_named_by_the_run_after_sleep(here: LocalHost):
    sandbox = Sandbox("native", durable=True)
    sandbox.run("import os; open('mine.txt', 'w').close(); open('closed.txt', 'w').close(); os.chmod('closed.txt', 0)")
    sandbox.hibernate()
    ran = sandbox.run("sorted(os.listdir())")
    assert (ran.value, ran.state) == (["mine.txt"], "restored")
    assert "without closed.txt: " in ran.state_reason
    ran = sandbox.run(CRASH)
    assert "closed.txt" not in sandbox.run("1").state_reason  # files were kept
    sandbox.close()


def test_a_crash_right_after_a_run_says_what_the_next_one_will_find(here: LocalHost, monkeypatch: pytest.MonkeyPatch):
    add = SqliteStore.add_checkpoint

    def slow(*given: Any) -> None:
        time.sleep(0.5)
        add(*given)

    monkeypatch.setattr(SqliteStore, "add_checkpoint", slow)
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1")
    crashed = sandbox.run(CRASH)
    assert (crashed.status, crashed.state) == ("crashed", "restored")
    assert crashed.state_reason.endswith("the next run continues from the state after run 1")
    assert sandbox.run("x").value == 1
    sandbox.close()


def test_the_files_of_a_wasm_process_that_was_killed_outright_come_back(here: LocalHost):
    sandbox = Sandbox("wasm", durable=True)
    sandbox.run("x = 1; open('a.txt', 'w').write('a')")
    saved(here, sandbox.id)
    here.background.wait(probe.runner(sandbox).kill())
    ran = sandbox.run("[x, open('a.txt').read()]")
    assert (ran.error, ran.value, ran.state) == (None, [1, "a"], "restored")
    sandbox.close()
