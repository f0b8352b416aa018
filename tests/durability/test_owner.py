"""A durable sandbox belongs to its owner: every other owner gets what an id gets that never was."""

from __future__ import annotations

import pytest

from belljar import Sandbox, SandboxMissing, compose
from belljar.compose import LocalHost
from belljar.execution import Execution
from belljar.service.base import RunRequest, SandboxRequest


async def value(host: LocalHost, owner: str, id: str, code: str = "x") -> object:
    (ran,) = [item async for item in host.service.run(owner, id, RunRequest(code))]
    assert isinstance(ran, Execution)
    return ran.value


def test_no_other_owner_finds_wakes_or_closes_it_and_lists_keep_owners_apart(here: LocalHost):
    wait, service = here.background.wait, here.service
    made = wait(service.create("ann", SandboxRequest(engine="native", durable=True, files={"x": b"1"})))
    assert wait(value(here, "ann", made.id, "x = 1; x")) == 1
    assert wait(service.hibernate("ann", made.id))
    with pytest.raises(SandboxMissing):
        Sandbox.connect(made.id)
    with pytest.raises(SandboxMissing):
        wait(value(here, "bob", made.id))
    assert here.host.sessions() == []
    wait(service.close("bob", made.id))
    with compose.overview(here.settings) as seen:
        assert [row["id"] for row in seen.sandboxes("ann")] == [made.id]
        assert seen.sandboxes("bob") == []
    assert wait(value(here, "ann", made.id)) == 1
    woken = here.host.session("ann", made.id)
    assert woken is not None
    assert woken.id == made.id
    wait(service.close("ann", made.id))
    assert compose.local_host() is here
