"""The one place that wires the layers: this process's host, its background loop, and the environments it offers."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belljar.background import BackgroundLoop
from belljar.engines.base import EngineHealth
from belljar.errors import InvalidRequest
from belljar.host.host import Host
from belljar.packages import base
from belljar.packages.environment import Environment, default_python
from belljar.policy import Policy
from belljar.settings import Settings

_lock = threading.Lock()
_here: LocalHost | None = None


class LocalHost:
    """This process as a host."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.load()
        self.background = BackgroundLoop()
        self.host = Host(self.settings)
        self._base: Environment | None = None

    def environment(self, policy: Policy) -> Environment:
        """What a sandbox with this policy imports from; prepared first when it must be."""
        if policy.packages == "none":
            return Environment(python())
        if policy.packages != "auto":
            raise InvalidRequest("a list of packages is not part of this version; use packages='auto' or 'none'")
        if self._base is None:
            self._base = base.base_environment(python(), self.settings.cache_dir)
        return self._base

    def knows_environment(self, policy: Policy) -> bool:
        """Whether environment() returns at once."""
        return self._base is not None or policy.packages == "none" or is_prepared()

    def close(self) -> None:
        """End every sandbox and the loop."""
        try:
            self.background.wait(asyncio.wait_for(self.host.close(), 30))
        finally:
            self.background.stop()


@contextmanager
def using(host: LocalHost) -> Iterator[LocalHost]:
    """Make sandboxes on another host of this process for a while, from any thread."""
    global _here
    before, _here = _here, host
    try:
        yield host
    finally:
        _here = before


def local_host() -> LocalHost:
    """The host of this process, made at first use and closed at exit."""
    global _here
    with _lock:
        if _here is None:
            _here = LocalHost()
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


def base_environment(progress: base.Progress | None = None) -> Environment:
    """The environment of ordinary sandboxes; prepared first when it must be."""
    return base.base_environment(python(), Settings.load().cache_dir, progress)


def is_prepared() -> bool:
    """Whether the base environment is there already."""
    return base.is_prepared(python(), Settings.load().cache_dir)


def python() -> Path:
    """The CPython that sandboxes get when they do not ask for another: the one this process runs on."""
    return Path(default_python())


def check_host(host: str | None) -> None:
    """Refuse what this version cannot reach.

    Raises:
        InvalidRequest: for anything but this process.
    """
    if host is not None:
        raise InvalidRequest("host=... needs a Belljar server, which is not part of this version; leave it out")


def _forget_after_fork() -> None:
    """A forked child has no loop thread: it starts over, and never touches its parent's sandboxes."""
    global _here, _lock
    _here, _lock = None, threading.Lock()


atexit.register(close)
os.register_at_fork(after_in_child=_forget_after_fork)
