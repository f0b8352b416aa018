"""For every test: a sandbox when it asks for one, and the promise that the session leaves nothing behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import engines, markers
from tests.reliability import traces
from tests.shop import Shop

from belljar import Sandbox, compose
from belljar.compose import LocalHost
from belljar.packages import lookup
from belljar.settings import Settings

MAKES_JAILS = "belljar.engines.native.jail"  # imported with the engine that makes them
MOUNTS = Path("/proc/self/mountinfo")


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by what it needs."""
    for item in items:
        markers.mark(item)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """When jails were made: no process, control group or mount of one outlives the session."""
    mounts = traces.jail_mounts() if MOUNTS.exists() else []
    yield
    compose.close()
    if MAKES_JAILS not in sys.modules:
        return
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
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHost]:
    """A host whose added packages are kept in a folder of the tests; all else it shares with the ordinary cache."""
    settings = Settings.load()
    cache = tmp_path_factory.mktemp("cache")
    cache.chmod(0o755)
    for name in ("environments", "wasm", "inside", "interpreters", "proofs"):
        (cache / name).mkdir()
        for path in (settings.cache_dir / name).glob("*"):
            if path.name not in ("layers", "built", "wheels"):
                (cache / name / path.name).symlink_to(path)
    host = LocalHost(replace(settings, cache_dir=cache, pool_size=0, wheelhouse=None, install_timeout_s=60))
    yield host
    host.close()


@pytest.fixture
def shop(apart: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """An index on loopback, the only one that uv and pip know; sandboxes are made on the host that is apart."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    opened = Shop()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", opened.address)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    forget(apart)
    with compose.using(apart):
        yield opened
    opened.close()
    forget(apart)


def forget(host: LocalHost) -> None:
    """Drop what this process and a host have learnt of an index."""
    lookup.forget()
    host.host.shared.failed_imports.clear()


@pytest.fixture(scope="session")
def native() -> None:
    """The native engine works here."""
    with engines.required():
        Sandbox("native").close()
