"""The one place that wires the layers: this process's host, its background loop, and the environments it offers."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from belljar.background import BackgroundLoop
from belljar.engines.base import Engine, EngineHealth
from belljar.errors import InvalidRequest
from belljar.host.host import Host
from belljar.packages.environment import Environment
from belljar.packages.progress import Progress
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

    async def environment(
        self, engine: Engine, policy: Policy, python: str | None = None, packages: Sequence[str] = ()
    ) -> Environment:
        """What a sandbox imports from; off the loop when it must be prepared first, which takes long."""
        if engine.is_prepared(policy, python):
            found = engine.environment(policy, None, python)
        else:
            found = await asyncio.to_thread(engine.environment, policy, None, python)
        if not packages:
            return found
        from belljar.packages.failure import told_as_written

        wanted = await self.host.built(engine, found, packages)
        with told_as_written(packages, wanted):
            return await asyncio.to_thread(engine.extend, found, wanted, None)

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


def base_environment(engine: str, progress: Progress | None = None) -> Environment:
    """The environment of an engine's ordinary sandboxes; prepared first when it must be."""
    return chosen(engine).environment(Policy(), progress)


def fetch_packages(engine: str, packages: Sequence[str], progress: Progress | None = None) -> list[str]:
    """Have packages ready to be added to sandboxes, each alone and all together; `name==version` of what that takes.

    Raises:
        InvalidRequest: for what does not name a package.
        PackageError: with the reason.
    """
    from belljar.packages.failure import told_as_written
    from belljar.packages.requirements import check

    here, maker = local_host(), chosen(engine)
    written = check(packages, sources=here.settings.package_sources)
    base = maker.environment(Policy())
    wanted: Sequence[str] = here.background.wait(here.host.built(maker, base, written))
    found: set[str] = set()
    for number, part in enumerate([*((text,) for text in wanted), wanted] if len(wanted) > 1 else [wanted]):
        if part and progress is not None:
            shown = written if part is wanted else written[number : number + 1]
            progress(f"Fetching {', '.join(shown)}", number / (len(wanted) + 1))
        with told_as_written(written, wanted):
            found |= {*maker.extend(base, part, None).packages} - {*base.packages}
    return sorted(found)


def is_prepared(engine: str) -> bool:
    """Whether the base environment of an engine is there already."""
    return chosen(engine).is_prepared(Policy())


def chosen(engine: str) -> Engine:
    """The engine of that name on this process's host; for `auto` the one that it stands for."""
    here = local_host()
    return here.background.wait(here.host.registry.choose(engine))


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
    if _here is not None:
        _here.host.forget()
    _here, _lock = None, threading.Lock()


atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
