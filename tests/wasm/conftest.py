"""Wasm sandboxes on a host without a pool, so that nothing starts but what a test asks for; one is shared per file."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests import engines, probe

from belljar import Policy, Sandbox, compose
from belljar.compose import LocalHost
from belljar.engines.wasm.engine import WasmEngine
from belljar.settings import Settings

Probe = Callable[..., object]
BARE = Policy(packages="none")


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    """A host of its own for every file."""
    compose.close()  # hosts of one process share the name of their control groups
    host = LocalHost(replace(Settings.load(), pool_size=0))
    with compose.using(host):
        with engines.required():
            Sandbox("wasm", policy=BARE).close()
        yield host
    host.close()


@pytest.fixture(scope="module")
def wasm(host: LocalHost) -> Iterator[Sandbox]:
    """A sandbox with the science set that the tests of one file share."""
    with Sandbox("wasm") as made:
        yield made


@pytest.fixture(scope="module")
def bare(host: LocalHost) -> Iterator[Sandbox]:
    """One with Python alone."""
    with Sandbox("wasm", policy=BARE) as made:
        yield made


@pytest.fixture
def value(wasm: Sandbox) -> Probe:
    """Run code that must succeed without a word on standard error, and give its value."""

    def probe(code: str, **options: object) -> object:
        ran = wasm.run(code, **options)
        assert (ran.status, ran.stderr, ran.state) == ("ok", "", "kept"), ran.error
        return ran.value

    return probe


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Somebody on loopback whom no sandbox may reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield Listener(server)


class Listener:
    """Counts who came."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self.port: int = server.getsockname()[1]

    def connections(self) -> int:
        """How many came since it was last asked."""
        count = 0
        while True:
            try:
                self._server.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def engine(host: LocalHost) -> WasmEngine:
    engine = probe.engine(host, "wasm")
    assert isinstance(engine, WasmEngine)
    probe.installer(host, "wasm").environment(Policy())
    return engine
