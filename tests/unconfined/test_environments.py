"""Environment variables of durable sandboxes are kept for their next wake, and go when a sandbox is closed for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests import probe
from tests.unconfined.conftest import eventually

from belljar.durable import saving
from belljar.errors import SandboxError, SandboxMissing, StoreFailed
from belljar.service.base import SandboxRequest
from belljar.testing import UnconfinedHost, World, unconfined

SECRET = SandboxRequest(durable=True, env={"TOKEN": "secret"})


async def of_its_service(host: UnconfinedHost, id: str) -> None:
    await host.service.close("ann", id)


async def of_the_control_socket(host: UnconfinedHost, id: str) -> None:
    answer = await probe.answer(await host.service.durability(), {"act": "close", "owner": "ann", "id": id})
    assert answer == {"closed": True}


async def of_the_host(host: UnconfinedHost, id: str) -> None:
    await host.host.close_session(probe.live(host.host, id, "ann"))


@pytest.mark.parametrize("close", [of_its_service, of_the_control_socket, of_the_host])
def test_the_environment_of_a_sandbox_goes_with_every_way_to_close_it(
    host: UnconfinedHost, close: Callable[[UnconfinedHost, str], Awaitable[None]]
):
    async def story() -> None:
        made = await host.service.create("ann", SECRET)
        other = await host.service.create("ann", SECRET)
        assert {name for _, name in await probe.environments(host.service)} == {made.id, other.id}
        await close(host, made.id)
        assert {name for _, name in await probe.environments(host.service)} == {other.id}
        await host.service.hibernate("ann", other.id)
        assert {name for _, name in await probe.environments(host.service)} == {other.id}
        await host.service.close("ann", other.id)
        assert not await probe.environments(host.service)

    host.background.wait(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("state", ["live", "asleep"])
def test_the_environment_of_a_sandbox_that_is_too_old_goes_with_it(state: str):
    with unconfined(max_age_s=5000) as host:
        made = host.background.wait(host.service.create("ann", SECRET))
        if state == "asleep":
            assert host.background.wait(host.service.hibernate("ann", made.id))
        host.world.clock.advance(5001)
        eventually(lambda: not host.background.wait(probe.environments(host.service)))


def test_the_environment_of_a_restore_that_failed_goes_with_it(host: UnconfinedHost, monkeypatch: pytest.MonkeyPatch):
    async def fail(*_: object) -> None:
        raise StoreFailed("it ended on the way")

    async def story() -> None:
        made = await host.service.create("ann", SandboxRequest())
        saved = (await host.service.checkpoint("ann", made.id)).to_bytes()
        monkeypatch.setattr(saving, "restore", fail)
        with pytest.raises(StoreFailed):
            await host.service.restore("ann", saved, SECRET)
        assert not await probe.environments(host.service)

    host.background.wait(asyncio.wait_for(story(), 60))


def test_the_environment_of_a_sandbox_that_did_not_start_goes_with_it(
    host: UnconfinedHost, monkeypatch: pytest.MonkeyPatch
):
    async def fail(*_: object) -> None:
        raise SandboxError("no room for it")

    async def story() -> None:
        with monkeypatch.context() as broken:
            broken.setattr(host.host, "admit", fail)
            with pytest.raises(SandboxError):
                await host.service.create("ann", SECRET)
        assert not await probe.environments(host.service)

    host.background.wait(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("notice", ["sweep", "get"])
def test_the_environment_of_a_sandbox_that_another_process_closed_goes_when_that_is_noticed(world: World, notice: str):
    with unconfined(world) as host, unconfined(world) as other:
        made = host.background.wait(host.service.create("ann", SECRET))
        assert host.background.wait(host.service.hibernate("ann", made.id))
        other.background.wait(other.service.close("ann", made.id))
        if notice == "sweep":
            host.background.wait(probe.ledger(host).sweep())
        else:
            world.store.remove_sandbox(made.id)
            with pytest.raises(SandboxMissing):
                host.background.wait(host.service.get("ann", made.id))
        assert not host.background.wait(probe.environments(host.service))
