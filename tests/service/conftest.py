"""Services with a state folder of their own. `kind` is the one place that says which engine their sandboxes have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from belljar import Policy
from belljar.compose import LocalHost
from belljar.engines.registry import Registry
from belljar.service.base import SandboxRequest
from belljar.settings import Settings
from belljar.testing import ENGINE, part

MakeHost = Callable[..., LocalHost]


@dataclass(frozen=True)
class Kind:
    """What the sandboxes of these tests are, and where their hosts have their engine from."""

    engine: str
    registry: Callable[[Settings], Registry] = Registry
    policy: Policy = field(default_factory=lambda: Policy(packages="none"))

    def request(self, **options: Any) -> SandboxRequest:
        """The request for a sandbox of this kind."""
        return SandboxRequest(**{"engine": self.engine, "policy": self.policy, **options})


@pytest.fixture(scope="module", params=[ENGINE, "native"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == ENGINE:
        return Kind(ENGINE, lambda settings: Registry(settings, {ENGINE: part()}))
    request.getfixturevalue("native")
    return Kind("native")


@pytest.fixture(scope="module")
def make_host(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeHost]:
    """Makes hosts of this process, each with a state folder of its own unless one is given."""
    made: list[LocalHost] = []

    def make(state_dir: Path | None = None, **parts: Any) -> LocalHost:
        settings = replace(
            Settings.load(), state_dir=state_dir or tmp_path_factory.mktemp("state"), pool_size=0, reserve_size=0
        )
        made.append(LocalHost(replace(settings, allow_degraded=kind.engine == ENGINE), registry=kind.registry, **parts))
        return made[-1]

    yield make
    for host in made:
        if host.background.reachable:
            host.close()
