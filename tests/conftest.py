"""For every test: a sandbox when it asks for one, and the promise that the session leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.reliability import traces

from belljar import EngineUnavailable, Sandbox, compose


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Whatever the tests did: no process, control group or mount of a jail outlives the session."""
    mounts = traces.jail_mounts()
    yield
    compose.close()
    traces.eventually(lambda: not traces.jailed(os.getpid()) and not traces.own_groups(os.getpid()))
    assert traces.jailed(os.getpid()) == []
    assert traces.own_groups(os.getpid()) == []
    assert [mount for mount in traces.jail_mounts() if mount not in mounts] == []


@pytest.fixture
def sandbox(native: None) -> Iterator[Sandbox]:
    """A fresh native sandbox."""
    with Sandbox("native") as made:
        yield made


@pytest.fixture(scope="session")
def native() -> None:
    """The native engine works here; skip with the reason on a contributor's machine, fail on CI."""
    try:
        Sandbox("native").close()
    except EngineUnavailable as unavailable:
        if os.environ.get("CI") == "true":
            pytest.fail(str(unavailable))
        pytest.skip(str(unavailable))
