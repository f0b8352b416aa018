"""For tests of Belljar and of programs that use it: sandboxes without walls that start in tens of milliseconds.

    from belljar import Sandbox
    from belljar.testing import unconfined

    def test_my_agent():
        with unconfined() as host, Sandbox() as sandbox:
            assert sandbox.run("1 + 1").value == 2
            host.world.clock.advance(3600)

**Nothing confines what runs in such a sandbox.** It is an ordinary process of yours, so run only code there that you
would run anyway. Its engine cannot be picked in any other way, and each Execution has `"walls"` in `degraded`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from belljar import compose
from belljar.durable.lock import GoneHost
from belljar.engines.base import Engine
from belljar.engines.registry import Part, Registry
from belljar.options import SandboxOptions
from belljar.packages.installer import Installer
from belljar.sandbox import Sandbox
from belljar.settings import Settings
from belljar.store.memory import MemoryStore

ENGINE = "unconfined"


class Clock:
    """A clock that stands still until a test moves it. Any thread may use it."""

    def __init__(self, start: float | None = None) -> None:
        self._now = time.time() if start is None else start
        self._lock = threading.Lock()
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Seconds since the epoch, as this clock has it."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move it, and wake those whose time has come."""
        with self._lock:
            self._now += seconds
            due = [future for at, future in self._sleepers if at <= self._now]
            self._sleepers = [(at, future) for at, future in self._sleepers if at > self._now]
        for future in due:
            future.get_loop().call_soon_threadsafe(_wake, future)

    async def sleep(self, seconds: float) -> None:
        """Return when the clock was moved by that much."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._sleepers.append((self._now + seconds, future))
        try:
            await future
        finally:
            with self._lock:
                self._sleepers = [(at, each) for at, each in self._sleepers if each is not future]


@dataclass
class MemoryLock:
    """A host's lock; gone when the process ends, or when a test says that its host is gone."""

    name: str
    held: set[str]
    address: tuple[Path, str] | None = None

    def note(self, pids: Iterable[int]) -> None:
        """Write nothing down: these processes end with this one."""
        del pids

    def release(self) -> None:
        """Give it up."""
        self.held.discard(self.name)

    def forget(self) -> None:
        """Leave it to the parent, which has its own memory."""


class MemoryLocks:
    """The locks of all hosts of a test."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self._gone: list[str] = []

    def take(self) -> MemoryLock:
        """Take a new lock."""
        lock = MemoryLock(f"{os.getpid()}-0-{secrets.token_hex(4)}", self.held)
        self.held.add(lock.name)
        return lock

    def is_held(self, name: str) -> bool:
        """Whether the host of this name lives."""
        return name in self.held

    def lose(self, name: str) -> None:
        """Have every other host find that the host of this name ended without a word."""
        self.held.discard(name)
        self._gone.append(name)

    def gone(self) -> Iterator[GoneHost]:
        """Hosts that ended without releasing their locks, each once."""
        while self._gone:
            yield GoneHost(self._gone.pop(), ())


class World:
    """What the hosts of a test share: the time, the store, the locks, and a folder for keys and caches."""

    def __init__(self, start: float | None = None) -> None:
        self.clock = Clock(start)
        self.store = MemoryStore(self.clock.now)
        self.locks = MemoryLocks()
        self.folder = Path(tempfile.mkdtemp(prefix="belljar-testing-"))

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class UnconfinedHost(compose.LocalHost):
    """A host that has no engine but the one without walls, and keeps nothing outside its world."""

    def __init__(self, world: World, settings: Settings, parts: Mapping[str, Part]) -> None:
        super().__init__(
            settings,
            registry=lambda settings: Registry(settings, parts),
            store=lambda _: world.store,
            locks=lambda _: world.locks,
            now=world.clock.now,
            sleep=world.clock.sleep,
        )
        self.world = world

    def sandbox(self, engine: str = "auto", **options: Unpack[SandboxOptions]) -> Sandbox:
        """A sandbox on this host, also where another one is the host of this process at the moment."""
        with compose.pinned(self):
            return Sandbox(engine, **options)


@contextmanager
def unconfined(
    world: World | None = None, *, science: bool = False, parts: Mapping[str, Part] | None = None, **settings: Any
) -> Iterator[UnconfinedHost]:
    """Make this process's sandboxes without walls for a while; they end with the block, whatever thread made them.

    Args:
        world: what the host shares with other hosts of the test; by default it has a world of its own.
        science: show numpy, pandas and what else native sandboxes have, where that was prepared before.
        parts: other engines than the one without walls, by name, to be tested in its place.
        settings: fields of `Settings`, such as `max_sandboxes=2` or `idle_s=60`.
    """
    own = World() if world is None else None
    here = world or own
    assert here is not None
    try:
        host = UnconfinedHost(here, _settings(here, science, settings), parts or {ENGINE: part(science)})
        try:
            with compose.using(host):
                yield host
        finally:
            host.close()
    finally:
        if own is not None:
            own.close()


def part(science: bool = False) -> Part:
    """The engine without walls, with its installer, for a registry of a test's own."""

    def make(registry: Registry) -> tuple[Engine, Installer]:
        from belljar.engines.unconfined.engine import UnconfinedEngine
        from belljar.engines.unconfined.installer import CurrentPython

        return UnconfinedEngine(ENGINE), CurrentPython(ENGINE, registry.settings, science)

    return Part(make, is_possible=os.name == "posix")


def _settings(world: World, science: bool, changes: Mapping[str, Any]) -> Settings:
    """Nothing of the operator's, but the cache where it has packages to show. `auto` may pick what has no walls."""
    cache = Settings.load().cache_dir if science else world.folder / "cache"
    plain = Settings(cache, world.folder / "state", allow_degraded=True, pool_size=0, reserve_size=0)
    return replace(plain, **changes)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
