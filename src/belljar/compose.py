"""The one place that wires the layers: a service over the host of this process, and its background loop."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from belljar.background import BackgroundLoop
from belljar.engines.registry import Registry
from belljar.errors import EngineUnavailable, InvalidRequest
from belljar.health import EngineHealth
from belljar.host.host import Host
from belljar.packages.environment import Environment
from belljar.packages.progress import Progress
from belljar.policy import Policy
from belljar.service.local import LocalService
from belljar.settings import Settings
from belljar.store.base import Store

if TYPE_CHECKING:  # few hosts have durable sandboxes: the others do not wait for these imports
    from belljar.durable.ledger import Ledger, Locks
    from belljar.durable.overview import Overview

CLOSE_S = 30.0

_lock = threading.Lock()
_used: list[LocalHost] = []  # hosts that `using` puts in the place of this process's own
_pinned: ContextVar[LocalHost | None] = ContextVar("belljar_host", default=None)
_here: LocalHost | None = None  # where Sandbox() makes sandboxes; other hosts of this process are not touched by it
_hosts: weakref.WeakSet[LocalHost] = weakref.WeakSet()  # what a forked child must let go of
_of_parents: list[LocalHost] = []  # in a forked child; kept, since SQLite must not close there what the parent has open


class LocalHost:
    """A host in this process with its service, its loop, and what it was given: nothing is shared between two of them.

    The store and the locks are made when the first durable sandbox needs them.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        registry: Callable[[Settings], Registry] = Registry,
        store: Callable[[Settings], Store] | None = None,
        locks: Callable[[Settings], Locks] | None = None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings or Settings.load()
        self.background = BackgroundLoop()
        self.host = Host(self.settings, registry(self.settings), now, sleep)
        self.service = LocalService(self.host, self._ledger, self._has_store)
        self._store = store or _sqlite_store
        self._locks = locks or _file_locks
        self._now = now
        _hosts.add(self)

    def close(self) -> None:
        """End every sandbox and the loop; what is durable sleeps."""
        try:
            self.background.wait(asyncio.wait_for(self.service.close_all(), CLOSE_S))
        finally:
            self.background.stop()

    def _has_store(self) -> bool:
        """Whether anything may be stored. The loop does not call it: it looks at the disk."""
        if self._store is not _sqlite_store:
            return True
        from belljar.store.sqlite import SqliteStore

        try:
            SqliteStore(self.settings.state_dir).path.stat()
        except OSError as failure:  # what else may be wrong, the store says better when it is opened
            return not isinstance(failure, FileNotFoundError | NotADirectoryError)
        return True

    def _ledger(self) -> Ledger:
        from belljar.durable.ledger import Ledger

        host, settings = self.host, self.settings
        return Ledger(
            settings, host.journal, self._store(settings), self._locks(settings), host.registry.sweep, self._now
        )


@contextmanager
def using(host: LocalHost) -> Iterator[LocalHost]:
    """Make sandboxes on another host of this process for a while, from any thread. Of several, the last one counts."""
    with _lock:
        _used.append(host)
    try:
        yield host
    finally:
        with _lock:
            _used.remove(host)


@contextmanager
def pinned(host: LocalHost) -> Iterator[LocalHost]:
    """Make sandboxes on this host within the block; other threads and tasks of the process go on with theirs."""
    token = _pinned.set(host)
    try:
        yield host
    finally:
        _pinned.reset(token)


def local_host(settings: Settings | None = None) -> LocalHost:
    """The host that sandboxes are made on: the chosen one, or that of this process.

    The latter is made at its first use, with these settings then, and closed at exit.
    """
    global _here
    if (chosen := _pinned.get()) is not None:
        return chosen
    with _lock:
        if _used:
            return _used[-1]
        if _here is None:
            _here = LocalHost(settings)
        return _here


def close() -> None:
    """Close this process's host, if it has one; the next sandbox makes a new one."""
    global _here
    with _lock:
        host, _here = _here, None
    if host is not None:
        host.close()


def health() -> list[EngineHealth]:
    """What every engine can do on this machine."""
    here = local_host()
    return here.background.wait(here.host.health())


def auto_engine() -> str | None:
    """The engine that `auto` stands for on this machine; None when no engine holds its walls."""
    here = local_host()
    try:
        return here.background.wait(here.host.registry.choose_auto())
    except EngineUnavailable:
        return None


def base_environment(engine: str, progress: Progress | None = None) -> Environment:
    """The environment of an engine's ordinary sandboxes; prepared first when it must be."""
    here = local_host()
    return here.host.registry.installer(_name(here, engine)).environment(Policy(), progress)


def fetch_packages(engine: str, packages: Sequence[str], progress: Progress | None = None) -> list[str]:
    """Have packages ready to be added to sandboxes, each alone and all together; `name==version` of what that takes.

    Raises:
        InvalidRequest: for what does not name a package.
        PackageError: with the reason.
    """
    from belljar.packages.failure import told_as_written
    from belljar.packages.requirements import check

    here = local_host()
    installer = here.host.registry.installer(_name(here, engine))
    written = check(packages, sources=here.settings.package_sources)
    base = installer.environment(Policy())
    sources = here.host.shared.sources
    wanted: Sequence[str] = here.background.wait(sources.with_wheels(installer, base, written))
    found: set[str] = set()
    for number, part in enumerate([*((text,) for text in wanted), wanted] if len(wanted) > 1 else [wanted]):
        if part and progress is not None:
            shown = written if part is wanted else written[number : number + 1]
            progress(f"Fetching {', '.join(shown)}", number / (len(wanted) + 1))
        with told_as_written(written, wanted):
            found |= {*installer.extend(base, part, None).packages} - {*base.packages}
    return sorted(found)


def is_prepared(engine: str) -> bool:
    """Whether the base environment of an engine is there already."""
    here = local_host()
    return here.host.registry.installer(_name(here, engine)).is_prepared(Policy())


@contextmanager
def overview(settings: Settings | None = None) -> Iterator[Overview]:
    """Look at the durable sandboxes of this installation from outside, as its operator."""
    from belljar.durable.overview import Overview
    from belljar.store.sqlite import SqliteStore

    chosen = settings or Settings.load()
    store = SqliteStore(chosen.state_dir)
    try:
        yield Overview(chosen, store if store.path.exists() else None)
    finally:
        store.close()


def check_host(host: str | None) -> None:
    """Refuse what this version cannot reach.

    Raises:
        InvalidRequest: for anything but this process.
    """
    if host is not None:
        raise InvalidRequest("host=... needs a Belljar server, which is not part of this version; leave it out")


def _name(here: LocalHost, engine: str) -> str:
    """The name of an engine; for `auto` that of the engine that it stands for."""
    return here.background.wait(here.host.registry.choose(engine)).name


def _sqlite_store(settings: Settings) -> Store:
    from belljar.store.sqlite import SqliteStore

    return SqliteStore(settings.state_dir)


def _file_locks(settings: Settings) -> Locks:
    from belljar.durable.lock import FileLocks

    return FileLocks(settings.state_dir)


def _forget_after_fork() -> None:
    """A forked child has no loop thread: it starts over, and never touches its parent's sandboxes."""
    global _here, _lock
    _used.clear()
    _pinned.set(None)
    for host in list(_hosts):
        host.service.forget()
        _of_parents.append(host)
    _hosts.clear()
    _here, _lock = None, threading.Lock()


atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
