"""Several who use one durable sandbox at once, while it falls asleep, is closed, or its packages are gone."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests import probe
from tests.durability.conftest import MakeHost, live, saved

from belljar import AsyncSandbox, HostBusy, PackageError, Sandbox, SandboxClosed, SandboxError, StoreFailed
from belljar.compose import LocalHost
from belljar.durable import saving
from belljar.host import admission
from belljar.service.base import LIBRARY
from belljar.store.sqlite import SqliteStore


def test_sleep_in_the_middle_of_use_loses_nothing(here: LocalHost):
    sandbox = Sandbox("native", durable=True)
    sandbox.run("seen = []")
    stop = threading.Event()

    def disturb() -> int:
        slept = 0
        while not stop.is_set():
            slept += sandbox.hibernate()
            time.sleep(0.02)
        return slept

    with ThreadPoolExecutor(3) as pool:
        disturbing = pool.submit(disturb)
        for number in range(12):
            writing = pool.submit(sandbox.files.write, f"{number}.txt", str(number))
            assert sandbox.run(f"seen.append({number})").status == "ok"
            writing.result(30)
            time.sleep(0.03)
        stop.set()
        assert disturbing.result(30) > 0
    assert sandbox.run("seen").value == list(range(12))
    assert len(sandbox.files.list()) == 12
    sandbox.close()


def test_two_handles_that_wake_it_at_once_get_the_same_sandbox(here: LocalHost):
    async def both(id: str) -> list[object]:
        handles = [await AsyncSandbox.connect(id) for _ in range(3)]
        ran = await asyncio.gather(*(handle.run(f"x.append({n}); id(x)") for n, handle in enumerate(handles)))
        counted = (await handles[0].run("sorted(x)")).value
        await handles[1].close()
        try:
            await handles[2].run("1")
        except SandboxClosed:
            return [len({each.value for each in ran}), counted, "closed"]
        return []

    with Sandbox("native", durable=True) as sandbox:
        sandbox.run("x = []")
    assert asyncio.run(both(sandbox.id)) == [1, [0, 1, 2], "closed"]


def test_packages_that_cannot_be_had_again_are_told_and_the_rest_comes_back(
    another: MakeHost, monkeypatch: pytest.MonkeyPatch
):
    host = another()
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1")
    saved(host, sandbox.id)
    sandbox.hibernate()
    probe.durability(host).ledger.store.begin(
        lambda store: store.update_sandbox(sandbox.id, time.time(), ("gone==1.0",))
    ).result(10)
    asked: list[object] = []

    def extend(environment: object, requirements: object, seconds: object) -> None:
        asked.append(requirements)
        raise PackageError("there is no index")

    monkeypatch.setattr(host.host.registry.installer("native"), "extend", extend)
    ran = sandbox.run("x")
    assert (ran.value, ran.state) == (1, "restored")
    assert ran.state_reason.endswith("its packages could not be added again (there is no index)")
    assert asked == [["gone==1.0"]]
    sandbox.close()


def test_a_store_that_cannot_be_read_costs_a_try_and_not_the_state(here: LocalHost, monkeypatch: pytest.MonkeyPatch):
    sandbox = Sandbox("native", durable=True)
    sandbox.run("x = 1")
    saved(here, sandbox.id)
    sandbox.run("import os; os._exit(1)")

    def fail(*_: object) -> bytes:
        raise StoreFailed("the disk is slow today")

    for _ in range(2):
        with monkeypatch.context() as broken:
            broken.setattr(SqliteStore, "read_checkpoint", fail)
            with pytest.raises(StoreFailed):
                sandbox.run("x")
        time.sleep(0.2)  # whatever is saved in the background has had its chance
    ran = sandbox.run("x")
    assert (ran.value, ran.state) == (1, "restored")
    assert "exit code 1" in ran.state_reason
    sandbox.hibernate()
    with monkeypatch.context() as broken:
        broken.setattr(SqliteStore, "read_checkpoint", fail)
        with pytest.raises(StoreFailed):
            sandbox.run("x")
    assert sandbox.run("x").value == 1
    sandbox.close()


def test_a_handle_that_never_used_it_closes_it_all_the_same(here: LocalHost):
    async def close(id: str) -> None:
        unused = await AsyncSandbox.connect(id)
        await unused.close()

    sandbox = Sandbox("native", durable=True)
    asyncio.run(close(sandbox.id))
    assert live(here, sandbox.id) is None
    with pytest.raises(SandboxClosed):
        sandbox.run("1")


def slow_load(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make waking slow; set when it has begun."""
    reached, load = threading.Event(), saving.load

    async def slow(*given: Any, **named: Any) -> Any:
        reached.set()
        await asyncio.sleep(0.5)
        return await load(*given, **named)

    monkeypatch.setattr(saving, "load", slow)
    return reached


def test_one_that_is_found_while_it_wakes_is_as_durable_as_it_was(here: LocalHost, monkeypatch: pytest.MonkeyPatch):
    reached = slow_load(monkeypatch)

    async def use(id: str) -> None:
        waking = await AsyncSandbox.connect(id)
        running = asyncio.ensure_future(waking.run("x"))
        while not reached.is_set():
            await asyncio.sleep(0.01)
        async with await AsyncSandbox.connect(id) as found:
            assert found.durable
        assert (await running).value == 1

    with Sandbox("native", durable=True) as sandbox:
        sandbox.run("x = 1")
    asyncio.run(use(sandbox.id))
    again = Sandbox.connect(sandbox.id)
    assert again.run("x").value == 1
    (fork,) = again.fork()
    assert not here.background.wait(here.service.get(LIBRARY, fork.id)).durable
    fork.close()
    assert again.run("x").value == 1
    again.close()


def test_one_that_is_closed_while_it_wakes_stays_closed(here: LocalHost, monkeypatch: pytest.MonkeyPatch):
    reached = slow_load(monkeypatch)

    async def use(id: str) -> None:
        waking, closing = await AsyncSandbox.connect(id), await AsyncSandbox.connect(id)
        running = asyncio.ensure_future(waking.run("1"))
        while not reached.is_set():
            await asyncio.sleep(0.01)
        await closing.close()
        with pytest.raises(SandboxError):
            await running

    with Sandbox("native", durable=True) as sandbox:
        sandbox.run("x = 1")
    asyncio.run(use(sandbox.id))
    with pytest.raises(SandboxClosed):
        Sandbox.connect(sandbox.id)


def test_one_that_found_no_place_leaves_no_row(another: MakeHost, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admission, "WAIT_S", 0.1)
    host = another(max_sandboxes=1)
    with Sandbox("native"):
        for _ in range(3):
            with pytest.raises(HostBusy):
                Sandbox("native", durable=True)
    assert probe.durability(host).ledger.store.begin(lambda store: store.sandboxes(closed=True)).result(10) == []


def test_one_that_found_no_place_at_its_first_use_finds_one_later(another: MakeHost, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admission, "WAIT_S", 0.1)
    another(max_sandboxes=1)

    async def use() -> Any:
        sandbox = AsyncSandbox("native", durable=True)
        async with AsyncSandbox("native"):
            with pytest.raises(HostBusy):
                await sandbox.run("1")
        ran = await sandbox.run("2")
        await sandbox.close()
        return ran.value

    assert asyncio.run(use()) == 2
