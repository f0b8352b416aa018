"""Unlucky moments and odd input: two hosts at one id, a use just when room is made, callers that leave, odd texts."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

import pytest

from belljar import InvalidRequest, SandboxClosed, SandboxMissing, SandboxTaken
from belljar.execution import Execution
from belljar.service.base import LIBRARY, RunRequest, SandboxRequest
from belljar.store.base import SandboxRecord
from belljar.testing import UnconfinedHost, World, unconfined


async def ran(host: UnconfinedHost, id: str, code: str, owner: str = LIBRARY) -> Execution:
    items = [item async for item in host.service.run(owner, id, RunRequest(code))]
    assert isinstance(items[-1], Execution)
    return items[-1]


def test_two_hosts_that_create_one_id_at_once_make_one_sandbox(world: World, monkeypatch: pytest.MonkeyPatch):
    add, request = world.store.add_sandbox, SandboxRequest(id=str(uuid.uuid4()), durable=True)
    with unconfined(world) as one, unconfined(world) as other:
        taken: list[str] = []

        def add_and_be_late(record: SandboxRecord) -> None:
            monkeypatch.setattr(world.store, "add_sandbox", add)
            add(record)
            with pytest.raises(SandboxTaken):
                other.background.wait(other.service.create(LIBRARY, request))
            taken.append(record.id)

        monkeypatch.setattr(world.store, "add_sandbox", add_and_be_late)
        made = one.background.wait(one.service.create(LIBRARY, request))
        assert taken == [made.id]
        assert other.host.sessions() == []


def test_a_use_in_the_moment_when_room_is_made_delays_it_no_longer_than_it_takes():
    with unconfined(max_sandboxes=1) as host:

        async def story() -> None:
            first = await host.service.create(LIBRARY, SandboxRequest(durable=True))
            second = asyncio.ensure_future(host.service.create(LIBRARY, SandboxRequest(durable=True)))
            while not host.host.admission.waiting:
                await asyncio.sleep(0)
            await ran(host, first.id, "import time; time.sleep(0.2)")
            made = await asyncio.wait_for(second, 20)  # an idle one that failed is left alone for a minute
            assert [session.id for session in host.host.sessions()] == [made.id]

        host.background.wait(story())


def test_a_create_that_forgets_that_its_sandbox_is_durable_wakes_it(host: UnconfinedHost):
    async def story() -> None:
        request = SandboxRequest(id=str(uuid.uuid4()), durable=True)
        made = await host.service.create(LIBRARY, request)
        await ran(host, made.id, "x = 'precious'")
        assert await host.service.hibernate(LIBRARY, made.id)
        again = await host.service.create(LIBRARY, SandboxRequest(id=request.id))
        assert (again.id, again.durable) == (made.id, True)
        assert (await ran(host, made.id, "x")).value == "precious"
        await host.service.close(LIBRARY, made.id)
        assert await host.service.list(LIBRARY) == []

    host.background.wait(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("odd", ["\ud800", "", "x" * 10_000, "a\0b"])
def test_an_id_that_none_can_have_is_missing(host: UnconfinedHost, odd: str):
    host.background.wait(host.service.create(LIBRARY, SandboxRequest(durable=True)))  # so that there is a store
    for act in (host.service.get, host.service.wake, host.service.reset):
        with pytest.raises(SandboxMissing):
            host.background.wait(act(LIBRARY, odd))
    host.background.wait(host.service.close(LIBRARY, odd))


def test_an_owner_that_cannot_be_written_is_refused(host: UnconfinedHost):
    with pytest.raises(InvalidRequest):
        host.background.wait(host.service.create("\ud800", SandboxRequest()))
    assert host.background.wait(host.service.list("\ud800")) == []


@pytest.mark.parametrize("env", [{"A=": "x"}, {"A": 5}, {"A": "\ud800"}])
def test_an_environment_for_the_next_wake_is_checked(host: UnconfinedHost, env: dict[str, Any]):
    made = host.background.wait(host.service.create(LIBRARY, SandboxRequest(durable=True)))
    with pytest.raises(InvalidRequest):
        host.background.wait(host.service.get(LIBRARY, made.id, env))


def test_a_caller_that_leaves_a_run_that_failed_leaves_no_complaint(
    host: UnconfinedHost, caplog: pytest.LogCaptureFixture
):
    async def story() -> None:
        made = await host.service.create(LIBRARY, SandboxRequest())
        code = "import time\nprint('on', flush=True)\ntime.sleep(20)"
        events = host.service.run(LIBRARY, made.id, RunRequest(code, live=True))
        assert (await anext(events))["type"] == "stdout"  # type: ignore[index]
        await host.service.close(LIBRARY, made.id)
        await asyncio.sleep(0.2)
        await events.aclose()
        with pytest.raises(SandboxClosed):
            await ran(host, made.id, "1")

    with caplog.at_level(logging.ERROR, "asyncio"):
        host.background.wait(asyncio.wait_for(story(), 60))
    assert caplog.records == []
