"""Several who use one durable sandbox at once, while it falls asleep, is closed, or its packages are gone."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.durability.conftest import MakeHost, saved

from belljar import AsyncSandbox, PackageError, Sandbox, SandboxClosed, StoreFailed
from belljar.compose import LocalHost
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
    durability = host.background.wait(host.host.durability())
    durability.store.begin(lambda store: store.update_sandbox(sandbox.id, time.time(), ("gone==1.0",))).result(10)
    asked: list[object] = []

    def extend(environment: object, requirements: object, seconds: object) -> None:
        asked.append(requirements)
        raise PackageError("there is no index")

    monkeypatch.setattr(host.host.registry.get("native"), "extend", extend)
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
    assert sandbox.id not in here.host.sessions
    with pytest.raises(SandboxClosed):
        sandbox.run("1")
