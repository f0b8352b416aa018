"""What comes at the wrong moment: acts while a sandbox starts, requests that are sent again, and stores that fail."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests import probe
from tests.service.acts import every
from tests.service.conftest import Kind, MakeHost

from belljar.compose import LocalHost
from belljar.durable import saving
from belljar.errors import SandboxClosed, SandboxMissing, SandboxTaken, StoreFailed
from belljar.execution import Execution
from belljar.host.host import Host
from belljar.host.session import Session
from belljar.service.base import Reply, RunRequest
from belljar.service.starts import id_of
from belljar.store.sqlite import SqliteStore


@pytest.fixture
def here(make_host: MakeHost) -> Iterator[LocalHost]:
    made = make_host()
    yield made
    made.close()


async def value(here: LocalHost, id: str, code: str) -> object:
    (ran,) = await every(here.service.run("ann", id, RunRequest(code)))
    assert isinstance(ran, Execution)
    assert ran.error is None, ran.error
    return ran.value


class Gate:
    """Holds the start of the next session up, once its place is reserved, until a test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()


@contextmanager
def slow_start() -> Iterator[Gate]:
    gate, start = Gate(), Host.start

    async def slow(host: Host, *given: Any, **named: Any) -> Session:
        gate.reached.set()
        await gate.opened.wait()
        return await start(host, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Host, "start", slow)
        yield gate


@pytest.mark.parametrize("durable", [False, True])
def test_a_sandbox_that_is_closed_while_it_starts_is_closed_once_it_is_up(here: LocalHost, kind: Kind, durable: bool):
    async def story() -> None:
        asked = str(uuid.uuid4())
        id_ = id_of("ann", asked)
        with slow_start() as gate:
            starting = asyncio.ensure_future(here.service.create("ann", kind.request(id=asked, durable=durable)))
            await gate.reached.wait()
            closing = asyncio.ensure_future(here.service.close("ann", id_))
            while not probe.waits_for_transition(here.service, "ann", id_):
                await asyncio.sleep(0)
            gate.opened.set()
            await asyncio.gather(starting, closing)
        assert here.host.sessions() == []
        assert await here.service.list("ann") == []
        with pytest.raises(SandboxClosed):
            await value(here, id_, "1")

    here.background.wait(asyncio.wait_for(story(), 60))


def test_one_that_is_put_to_sleep_while_it_starts_sleeps_once_it_is_up(here: LocalHost, kind: Kind):
    async def story() -> None:
        asked = str(uuid.uuid4())
        id_ = id_of("ann", asked)
        with slow_start() as gate:
            starting = asyncio.ensure_future(here.service.create("ann", kind.request(id=asked, durable=True)))
            await gate.reached.wait()
            sleeping = asyncio.ensure_future(here.service.hibernate("ann", id_))
            while not probe.waits_for_transition(here.service, "ann", id_):
                await asyncio.sleep(0)
            gate.opened.set()
            await starting
        assert await sleeping
        assert here.host.sessions() == []
        assert (await here.service.get("ann", id_)).state == "asleep"
        await here.service.close("ann", id_)

    here.background.wait(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("state", ["live", "asleep"])
def test_a_request_that_is_sent_again_makes_no_second_sandbox(here: LocalHost, kind: Kind, state: str):
    async def story() -> None:
        request = kind.request(id=str(uuid.uuid4()), durable=True, env={"MARK": "yes"})
        first = await here.service.create("ann", request)
        await value(here, first.id, "x = 1")
        if state == "asleep":
            assert await here.service.hibernate("ann", first.id)
        again = await here.service.create("ann", request)
        assert again.id == first.id
        assert [info.id for info in await here.service.list("ann")] == [first.id]
        assert await value(here, first.id, "import os\n[x, os.environ['MARK']]") == [1, "yes"]
        await here.service.close("ann", first.id)
        with pytest.raises(SandboxClosed):
            await here.service.create("ann", request)
        assert await here.service.list("ann") == []

    here.background.wait(asyncio.wait_for(story(), 60))


def test_two_requests_with_one_id_at_once_make_one_sandbox(here: LocalHost, kind: Kind):
    async def story() -> None:
        for durable in (False, True):
            request = kind.request(id=str(uuid.uuid4()), durable=durable)
            made = await asyncio.gather(*(here.service.create("ann", request) for _ in range(4)))
            assert {info.id for info in made} == {id_of("ann", str(request.id))}
            assert len(here.host.sessions()) == 1
            await here.service.close("ann", made[0].id)

    here.background.wait(asyncio.wait_for(story(), 60))


def test_one_whose_id_another_owner_has_wakes_with_its_own_environment(here: LocalHost, kind: Kind):
    async def story() -> None:
        of_bob = await here.service.create("bob", kind.request(durable=True))
        made = await here.service.create("ann", kind.request(id=of_bob.id, durable=True, env={"MARK": "ann"}))
        assert made.id != of_bob.id
        assert await here.service.hibernate("ann", made.id)
        assert await value(here, made.id, "import os; os.environ['MARK']") == "ann"
        for owner, id_ in (("ann", made.id), ("bob", of_bob.id)):
            await here.service.close(owner, id_)

    here.background.wait(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("state", ["live", "asleep"])
def test_a_close_that_failed_in_the_store_can_be_tried_again(
    here: LocalHost, kind: Kind, monkeypatch: pytest.MonkeyPatch, state: str
):
    def fail(*_: object) -> None:
        raise StoreFailed("the disk is full today")

    async def story() -> None:
        made = await here.service.create("ann", kind.request(durable=True))
        await value(here, made.id, "x = 1")
        if state == "asleep":
            assert await here.service.hibernate("ann", made.id)
        with monkeypatch.context() as broken:
            broken.setattr(SqliteStore, "close_sandbox", fail)
            with pytest.raises(StoreFailed):
                await here.service.close("ann", made.id)
        assert [info.id for info in await here.service.list("ann")] == [made.id]
        await here.service.close("ann", made.id)
        assert await here.service.list("ann") == []
        with pytest.raises(SandboxClosed):
            await here.service.get("ann", made.id)

    here.background.wait(asyncio.wait_for(story(), 60))


def test_one_whose_close_failed_can_be_used_again(here: LocalHost, kind: Kind, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise StoreFailed("the disk is full today")

    async def story() -> None:
        made = await here.service.create("ann", kind.request(durable=True))
        await value(here, made.id, "x = 1")
        await probe.live(here.host, made.id, "ann").guardian.settle()
        with monkeypatch.context() as broken:
            broken.setattr(SqliteStore, "close_sandbox", fail)
            with pytest.raises(StoreFailed):
                await here.service.close("ann", made.id)
        assert await value(here, made.id, "x") == 1
        await here.service.close("ann", made.id)

    here.background.wait(asyncio.wait_for(story(), 60))


def test_a_sleeping_sandbox_that_another_host_has_woken_is_not_closed_under_it(make_host: MakeHost, kind: Kind):
    one = make_host()
    other = make_host(one.settings.state_dir)
    made = one.background.wait(one.service.create("ann", kind.request(durable=True)))
    one.background.wait(value(one, made.id, "x = 1"))
    assert one.background.wait(one.service.hibernate("ann", made.id))
    assert other.background.wait(value(other, made.id, "x")) == 1
    for act in (one.service.close("ann", made.id), one.service.get("ann", made.id), value(one, made.id, "1")):
        with pytest.raises(SandboxTaken):
            one.background.wait(act)
    assert other.background.wait(value(other, made.id, "x += 1; x")) == 2
    with pytest.raises(SandboxMissing):
        one.background.wait(one.service.get("bob", made.id))
    other.background.wait(other.service.close("ann", made.id))
    one.background.wait(one.service.close("ann", made.id))
    for host in (one, other):
        host.close()


def test_a_close_that_was_cancelled_opens_no_store_for_what_is_not_durable(here: LocalHost, kind: Kind):
    async def story() -> None:
        made = await here.service.create("ann", kind.request())
        closing = asyncio.ensure_future(here.service.close("ann", made.id))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await here.service.close("ann", made.id)
        assert here.host.sessions() == []

    here.background.wait(asyncio.wait_for(story(), 60))
    assert not probe.is_durability_open(here)


def test_a_reply_that_no_call_waits_for_leaves_the_state_as_it_is(here: LocalHost, kind: Kind):
    async def story() -> None:
        made = await here.service.create("ann", kind.request())
        await value(here, made.id, "x = 1")
        for reply in (Reply(1, "value"), Reply(2, error=("Error", "text"))):
            await here.service.answer_call("ann", made.id, reply)
        assert await value(here, made.id, "x") == 1
        assert await here.service.variables("ann", made.id)
        await here.service.close("ann", made.id)

    here.background.wait(asyncio.wait_for(story(), 60))


def test_a_restore_that_fails_leaves_nothing(here: LocalHost, kind: Kind, monkeypatch: pytest.MonkeyPatch):
    async def fail(*_: object) -> None:
        raise StoreFailed("it ended on the way")

    async def story() -> None:
        made = await here.service.create("ann", kind.request())
        await value(here, made.id, "x = 1")
        saved = (await here.service.checkpoint("ann", made.id)).to_bytes()
        for durable in (False, True):
            with monkeypatch.context() as broken:
                broken.setattr(saving, "restore", fail)
                with pytest.raises(StoreFailed):
                    await here.service.restore("ann", saved, kind.request(durable=durable))
        assert [info.id for info in await here.service.list("ann")] == [made.id]
        assert [session.id for session in here.host.sessions()] == [made.id]
        await here.service.close("ann", made.id)
        assert probe.places_taken(here) == 0

    here.background.wait(asyncio.wait_for(story(), 60))
