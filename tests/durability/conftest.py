"""Hosts with a state folder of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import probe

from belljar import Limits, compose
from belljar.compose import LocalHost
from belljar.host.session import Session
from belljar.service.base import LIBRARY
from belljar.settings import Settings

MakeHost = Callable[..., LocalHost]


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def here(native: None, state_dir: Path) -> Iterator[LocalHost]:
    """The host that sandboxes of this module live on."""
    host = LocalHost(replace(Settings.load(), state_dir=state_dir, pool_size=0, reserve_size=0))
    with compose.using(host):
        yield host
    host.close()


@pytest.fixture
def another(native: None, tmp_path: Path) -> Iterator[MakeHost]:
    """More hosts, each in place of the one before."""
    made: list[LocalHost] = []
    used = ExitStack()

    def make(**settings: Any) -> LocalHost:
        values = {"state_dir": tmp_path / "state", "pool_size": 0, "reserve_size": 0, **settings}
        made.append(LocalHost(replace(Settings.load(), **values)))
        return used.enter_context(compose.using(made[-1]))

    with used:
        yield make
    for host in made:
        if host.background.reachable:
            host.close()


def saved(host: LocalHost, id: str) -> None:
    """Wait until all that a sandbox has is saved."""
    host.background.wait(probe.live(host.host, id).guardian.settle())


def live(host: LocalHost, id: str) -> Session | None:
    """The live session of a sandbox that the library made on that host."""
    return host.host.session(LIBRARY, id)


def limits(host: LocalHost, id: str) -> Limits:
    """The limits of a sandbox that the library made on that host."""
    return host.background.wait(host.service.get(LIBRARY, id)).limits
