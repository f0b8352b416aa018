"""The end of a service: whatever fails or hangs on the way, the state folder is let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests import probe

from belljar import compose
from belljar.durable.durability import Durability
from belljar.engines.registry import Registry
from belljar.errors import SandboxClosed
from belljar.host.host import Host
from belljar.service.base import SandboxRequest
from belljar.testing import ENGINE, World, unconfined

DURABLE = SandboxRequest(engine=ENGINE, durable=True)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


def failing(failure: type[BaseException]) -> Any:
    async def fail(*_: object) -> None:
        raise failure("it failed on the way")

    return fail


@pytest.mark.parametrize(("kind", "method"), [(Durability, "close"), (Host, "close"), (Registry, "close")])
def test_a_close_that_fails_on_the_way_still_lets_go_of_every_sandbox_and_of_the_lock(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: type, method: str
):
    with ExitStack() as end:
        host = end.enter_context(unconfined(world))
        made = host.background.wait(host.service.create("ann", DURABLE))
        monkeypatch.setattr(kind, method, failing(RuntimeError))
        with pytest.raises(RuntimeError):
            end.close()
    monkeypatch.undo()
    assert world.locks.held == set()
    with unconfined(world) as other:
        assert [info.state for info in other.background.wait(other.service.list("ann"))] == ["asleep"]
        other.background.wait(other.service.close("ann", made.id))


def test_a_close_that_takes_too_long_still_lets_go_of_every_sandbox_and_of_the_lock(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(compose, "CLOSE_S", 0.5)
    with ExitStack() as end:
        host = end.enter_context(unconfined(world))
        made = host.background.wait(host.service.create("ann", DURABLE))
        process = probe.live(host.host, made.id, "ann").process
        monkeypatch.setattr(probe.live(host.host, made.id, "ann").guardian, "settle", hang)
        with pytest.raises(TimeoutError):
            end.close()
    assert world.locks.held == set()
    assert not process.alive
    record = world.store.sandbox(made.id)
    assert record is not None
    assert record.state == "asleep"


def test_a_service_that_is_being_closed_opens_no_state_folder(world: World, monkeypatch: pytest.MonkeyPatch):
    with unconfined(world) as host:

        async def story() -> None:
            reached, opened, close = asyncio.Event(), asyncio.Event(), host.host.close

            async def slow() -> None:
                reached.set()
                await opened.wait()
                await close()

            monkeypatch.setattr(host.host, "close", slow)
            closing = asyncio.ensure_future(host.service.close_all())
            await reached.wait()
            with pytest.raises(SandboxClosed):
                await host.service.create("ann", DURABLE)
            opened.set()
            await closing

        host.background.wait(asyncio.wait_for(story(), 60))
        assert not probe.is_durability_open(host)
    assert world.locks.held == set()


def test_a_state_folder_that_is_just_being_opened_is_let_go_of_when_the_close_takes_too_long(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    open_ = Durability.open

    async def slow(durability: Durability) -> None:
        await open_(durability)
        await asyncio.Event().wait()

    monkeypatch.setattr(compose, "CLOSE_S", 0.5)
    monkeypatch.setattr(Durability, "open", slow)
    with ExitStack() as end:
        host = end.enter_context(unconfined(world))

        async def begin() -> asyncio.Future[object]:
            creating = asyncio.ensure_future(host.service.create("ann", DURABLE))
            while not world.locks.held:
                await asyncio.sleep(0.01)
            return creating

        creating = host.background.wait(begin())
        with pytest.raises(TimeoutError):
            end.close()
    assert world.locks.held == set()
    assert isinstance(creating.exception(), SandboxClosed)
