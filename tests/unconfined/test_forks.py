"""Forks of sandboxes without walls: what they have of their parent, and what happens when it is closed meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests import probe

from belljar import SandboxClosed
from belljar.engines.base import Exit, KernelExited, KernelProcess
from belljar.engines.unconfined.engine import UnconfinedEngine
from belljar.execution import Execution
from belljar.service.base import Reply, RunRequest, SandboxRequest
from belljar.state import keys
from belljar.testing import UnconfinedHost

CALL = "from belljar_kernel.calls import call\ncall('add', {'numbers': [1, 2, 3]})"
SLOW = """
import pathlib, time
class Slow:
    def __reduce__(self):
        pathlib.Path("begun").touch()
        time.sleep(60)
slow = Slow()
"""


def test_a_fork_through_a_checkpoint_may_call_what_its_parent_may_call(host: UnconfinedHost):
    async def story() -> list[object]:
        values: list[object] = []
        made = await host.service.create("ann", SandboxRequest(tools=("add",)))
        (fork,) = await host.service.fork("ann", made.id, 1)
        assert fork.restored is not None
        async for item in host.service.run("ann", fork.id, RunRequest(CALL, live=True)):
            if isinstance(item, Execution):
                values.append(item.value)
            elif item["type"] == "call":
                await host.service.answer_call("ann", fork.id, Reply(item["call_id"], sum(item["args"]["numbers"])))
        return values

    assert host.background.wait(asyncio.wait_for(story(), 60)) == [6]


@pytest.mark.parametrize("act", ["fork", "checkpoint", "variables"])
def test_what_is_asked_of_a_sandbox_that_is_closed_meanwhile_says_that_it_was_closed(host: UnconfinedHost, act: str):
    async def story() -> None:
        made = await host.service.create("ann", SandboxRequest())
        async for _ in host.service.run("ann", made.id, RunRequest(SLOW)):
            pass
        session = probe.live(host.host, made.id, "ann")
        saving = asyncio.ensure_future(host.service.checkpoint("ann", made.id))
        while not (session.process.folder / "workspace" / "begun").exists():  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        acts = {"fork": lambda: host.service.fork("ann", made.id, 1), "variables": lambda: variables(made.id)}
        asked = asyncio.ensure_future(acts[act]()) if act in acts else saving
        await asyncio.sleep(0)
        await host.service.close("ann", made.id)
        for each in (saving, asked):
            with pytest.raises(SandboxClosed):
                await each

    async def variables(id: str) -> object:
        return await host.service.variables("ann", id)

    host.background.wait(asyncio.wait_for(story(), 60))


def test_a_sandbox_that_is_closed_during_a_live_fork_says_that_it_was_closed(
    host: UnconfinedHost, monkeypatch: pytest.MonkeyPatch
):
    async def story() -> None:
        reached = asyncio.Event()

        async def fork(engine: UnconfinedEngine, process: KernelProcess, spec: object) -> None:
            reached.set()
            while process.alive:
                await asyncio.sleep(0.01)
            raise KernelExited(Exit(broken="it ended"))

        monkeypatch.setattr(UnconfinedEngine, "fork", fork, raising=False)
        made = await host.service.create("ann", SandboxRequest())
        forking = asyncio.ensure_future(host.service.fork("ann", made.id, 1))
        await reached.wait()
        await host.service.close("ann", made.id)
        with pytest.raises(SandboxClosed):
            await forking
        assert host.host.sessions() == []
        assert probe.places_taken(host) == 0

    host.background.wait(asyncio.wait_for(story(), 60))


def test_the_key_of_a_fork_is_read_in_a_thread(host: UnconfinedHost, monkeypatch: pytest.MonkeyPatch):
    threads: list[str] = []
    real = keys.own_key

    def own_key(*given: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return real(*given)

    async def story() -> None:
        made = await host.service.create("ann", SandboxRequest())
        assert len(await host.service.fork("ann", made.id, 1)) == 1

    monkeypatch.setattr(keys, "own_key", own_key)
    host.background.wait(asyncio.wait_for(story(), 60))
    assert threads
    assert probe.loop_thread(host) not in threads
