"""What a test does without its engine: skip with the reason on a contributor's machine, fail on CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from belljar import EngineUnavailable, Policy
from belljar.compose import LocalHost
from belljar.packages.installer import Installer


@contextmanager
def required() -> Iterator[None]:
    """Around whatever starts the engine."""
    try:
        yield
    except EngineUnavailable as unavailable:
        go_without(str(unavailable))


def prepared(name: str, host: LocalHost) -> Installer:
    """The installer of that host whose base environment for this engine is there already."""
    installer = host.host.registry.installer(name)
    if not installer.is_prepared(Policy()):
        go_without(f"the {name} engine is not prepared: `belljar packages sync --engine {name}`")
    return installer


def go_without(reason: str) -> NoReturn:
    """Do without it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
