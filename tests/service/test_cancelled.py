"""Acts on durable sandboxes that are cancelled while the store works: nothing of them is left."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests import probe

from belljar.host.host import Host
from belljar.service.base import SandboxRequest
from belljar.store.memory import MemoryStore
from belljar.testing import ENGINE, UnconfinedHost, unconfined

DURABLE = SandboxRequest(engine=ENGINE, durable=True)


@pytest.fixture
def here() -> Iterator[UnconfinedHost]:
    with unconfined() as made:
        yield made


@contextmanager
def slow_store(method: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The store reaches this method, says so, and goes no further before it is let on."""
    reached, opened, real = threading.Event(), threading.Event(), getattr(MemoryStore, method)

    def slow(*given: object) -> object:
        reached.set()
        assert opened.wait(30)
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, method, slow)
        try:
            yield reached, opened
        finally:
            opened.set()


async def cancelled(act: asyncio.Future[object], reached: threading.Event, opened: threading.Event) -> None:
    """Cancel an act once the store has reached it, and let the store go on then."""
    assert await asyncio.to_thread(reached.wait, 30)
    act.cancel()
    await asyncio.gather(act, return_exceptions=True)
    opened.set()


async def until_idle(here: UnconfinedHost) -> None:
    """Return when the store has done all that was begun."""
    await (await here.service.durability()).ledger.store.call(lambda _: None)


def test_a_create_that_is_cancelled_while_it_is_written_leaves_no_record(here: UnconfinedHost):
    async def story() -> None:
        await here.service.durability()
        for id_ in (str(uuid.uuid4()), None):
            request = SandboxRequest(engine=ENGINE, durable=True, id=id_)
            with slow_store("add_sandbox") as (reached, opened):
                await cancelled(asyncio.ensure_future(here.service.create("ann", request)), reached, opened)
            await until_idle(here)
            assert here.world.store.sandboxes(closed=True) == []

    here.background.wait(asyncio.wait_for(story(), 60))


def test_a_create_that_is_cancelled_leaves_the_sandbox_of_another_owner_with_its_id(here: UnconfinedHost):
    async def story() -> None:
        of_bob = await here.service.create("bob", DURABLE)
        request = SandboxRequest(engine=ENGINE, durable=True, id=of_bob.id)
        with slow_store("add_sandbox") as (reached, opened):
            await cancelled(asyncio.ensure_future(here.service.create("ann", request)), reached, opened)
        await until_idle(here)
        assert [(row.owner, row.state) for row in here.world.store.sandboxes(closed=True)] == [("bob", "live")]

    here.background.wait(asyncio.wait_for(story(), 60))


def test_a_wake_that_is_cancelled_lets_the_sandbox_sleep_with_its_reason(here: UnconfinedHost):
    async def story() -> None:
        made = await here.service.create("ann", DURABLE)
        assert await here.service.hibernate("ann", made.id)
        with slow_store("claim") as (reached, opened):
            await cancelled(asyncio.ensure_future(here.service.reset("ann", made.id)), reached, opened)
        await until_idle(here)
        record = here.world.store.sandbox(made.id)
        assert record is not None
        assert (record.state, record.host, record.reason) == ("asleep", None, "it was put to sleep, as asked")

    here.background.wait(asyncio.wait_for(story(), 60))


def test_a_wake_of_a_sandbox_of_another_owner_that_is_cancelled_leaves_it_live(here: UnconfinedHost):
    async def story() -> None:
        of_bob = await here.service.create("bob", DURABLE)
        with slow_store("sandbox") as (reached, opened):
            await cancelled(asyncio.ensure_future(here.service.reset("ann", of_bob.id)), reached, opened)
        await until_idle(here)
        record = here.world.store.sandbox(of_bob.id)
        assert record is not None
        assert record.state == "live"

    here.background.wait(asyncio.wait_for(story(), 60))


def test_a_hibernation_that_is_cancelled_while_the_process_ends_leaves_it_asleep(
    here: UnconfinedHost, monkeypatch: pytest.MonkeyPatch
):
    async def story() -> None:
        made = await here.service.create("ann", DURABLE)
        session = probe.live(here.host, made.id, "ann")
        reached, discard = asyncio.Event(), Host.discard

        async def slow(*given: object) -> None:
            await discard(*given)  # type: ignore[arg-type]
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Host, "discard", slow)
        sleeping = asyncio.ensure_future(here.service.hibernate("ann", session.id))
        await reached.wait()
        sleeping.cancel()
        await asyncio.gather(sleeping, return_exceptions=True)
        record = here.world.store.sandbox(made.id)
        assert record is not None
        assert record.state == "asleep"

    here.background.wait(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("state", ["live", "asleep"])
def test_a_close_that_is_cancelled_while_it_is_written_forgets_the_environment(here: UnconfinedHost, state: str):
    async def story() -> None:
        request = SandboxRequest(engine=ENGINE, durable=True, env={"TOKEN": "secret"})
        made = await here.service.create("ann", request)
        if state == "asleep":
            assert await here.service.hibernate("ann", made.id)
        with slow_store("close_sandbox") as (reached, opened):
            await cancelled(asyncio.ensure_future(here.service.close("ann", made.id)), reached, opened)
        await until_idle(here)
        assert not await probe.environments(here.service)

    here.background.wait(asyncio.wait_for(story(), 60))
