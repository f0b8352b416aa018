"""A durable sandbox belongs to its owner: for anybody else it is not there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import pytest
from belljar.host.overview import overview

from belljar import Limits, Policy, Sandbox, SandboxMissing, compose
from belljar.compose import LocalHost
from belljar.engines.base import Spec
from belljar.host.session import Session
from belljar.store.base import SandboxRecord


async def make(host: LocalHost, record: SandboxRecord, is_new: bool) -> Session:
    """As a server will: a sandbox of somebody."""
    environment = await host.environment(await host.host.registry.choose("native"), Policy())

    async def session(packages: Sequence[str]) -> Session:
        return await host.host.admit("native", Spec(record.id, environment))

    return await (await host.host.durability()).start(record, is_new, session)


def test_nobody_else_finds_wakes_or_closes_it_and_lists_tell_owners_apart(here: LocalHost):
    now = time.time()
    record = SandboxRecord(str(uuid.uuid4()), "native", now, now, "ann", limits=Limits())
    made = here.background.wait(make(here, record, is_new=True))
    assert here.background.wait(here.host.expiry.hibernate(made, "to be woken"))
    with pytest.raises(SandboxMissing):
        Sandbox.connect(record.id)
    stranger = SandboxRecord(record.id, "native", now, now, "bob")
    with pytest.raises(SandboxMissing):
        here.background.wait(make(here, stranger, is_new=False))
    here.background.wait(here.host.close_asleep(record.id, "bob"))
    with overview(here.settings) as seen:
        assert [row["id"] for row in seen.sandboxes("ann")] == [record.id]
        assert seen.sandboxes("bob") == []
    woken = here.background.wait(make(here, record, is_new=False))
    assert woken.spec.id == record.id
    here.background.wait(here.host.close_session(woken))
    assert compose.local_host() is here
