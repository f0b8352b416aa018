"""The one place where tests reach into privates: each function says what it hands out."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from belljar import AsyncSandbox, Sandbox, compose
from belljar.compose import LocalHost
from belljar.durable.durability import Durability
from belljar.engines.base import Engine, KernelProcess
from belljar.host.host import Host
from belljar.host.pool import Pool
from belljar.host.session import Session
from belljar.packages.installer import Installer
from belljar.service.base import LIBRARY
from belljar.service.local import LocalService
from belljar.settings import Settings

if TYPE_CHECKING:  # tests of one engine do not wait for the imports of the others
    from belljar.durable.autosave import Autosaver
    from belljar.durable.ledger import Ledger
    from belljar.durable.lock import HostLock
    from belljar.egress.gate import Gate
    from belljar.egress.line import Connection
    from belljar.egress.network import Network
    from belljar.egress.server import Egress
    from belljar.engines.kernel_workspace import KernelWorkspace
    from belljar.engines.native.confined import ConfinedProgram
    from belljar.engines.native.jail import Jail
    from belljar.engines.native.keeper import Keeper
    from belljar.engines.native.reserve import Reserve
    from belljar.engines.unconfined.process import UnconfinedProcess
    from belljar.engines.wasm.assembly import Runtime
    from belljar.packages.sources.web import Web
    from belljar.store.sqlite import SqliteStore
    from belljar.testing import UnconfinedHost

T = TypeVar("T")
CLOCKWORK = 2  # what sleeps by the clock of a host that is durable: its look at what is idle, and its hourly sweep
AnySandbox = Sandbox | AsyncSandbox


# Of a sandbox.


def core(sandbox: AnySandbox) -> AsyncSandbox:
    """The handle that awaits."""
    return sandbox._core if isinstance(sandbox, Sandbox) else sandbox


def wait(sandbox: AnySandbox, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop of its host, and block until it is done."""
    return core(sandbox)._background.wait(coroutine)


def service(sandbox: AnySandbox) -> LocalService:
    """The service that it calls."""
    found = core(sandbox)._service
    assert isinstance(found, LocalService)
    return found


def host(sandbox: AnySandbox) -> Host:
    """The host that it lives on."""
    return service(sandbox).host


def session(sandbox: AnySandbox) -> Session:
    """What is live of it."""
    return live(host(sandbox), sandbox.id)


def process(sandbox: AnySandbox) -> Any:
    """Its process, of whichever engine."""
    return session(sandbox).process


def guardian(sandbox: AnySandbox) -> Autosaver:
    """What saves a durable sandbox."""
    return autosaver(session(sandbox))


def is_live(sandbox: AnySandbox) -> bool:
    """Whether there is a session of it on its host now."""
    return host(sandbox).session(LIBRARY, sandbox.id) is not None


# Of a host.


def live(host: Host, id: str, owner: str = LIBRARY) -> Session:
    """The live session of a sandbox of the library, or of another owner."""
    found = host.session(owner, id)
    assert found is not None, f"no sandbox {id} is live on this host"
    return found


def autosaver(session: Session) -> Autosaver:
    """The guardian of a durable session."""
    from belljar.durable.autosave import Autosaver

    assert isinstance(session.guardian, Autosaver)
    return session.guardian


def durability(here: LocalHost) -> Durability:
    """What durable sandboxes of a host need; opened first when it must be."""
    return here.background.wait(here.service.durability())


def ledger(here: LocalHost) -> Ledger:
    """What a host has in the state folder; opened first when it must be."""
    return durability(here).ledger


async def environments(service: LocalService) -> list[tuple[str, str]]:
    """The owner and id of each sandbox whose environment is kept for its next wake."""
    return list((await service.durability()).ledger.environments)


async def answer(durability: Durability, request: dict[str, str]) -> dict[str, Any]:
    """What a host answers another process at its control socket."""
    return await durability._answer(request)


def is_durability_open(here: LocalHost) -> bool:
    """Whether a host has opened its state folder."""
    return here.service._state.is_used


def engine(here: LocalHost, name: str) -> Engine:
    """An engine of a host."""
    return here.host.registry.engine(name)


def installer(here: LocalHost, name: str) -> Installer:
    """The installer that belongs to an engine of a host."""
    return here.host.registry.installer(name)


def pools(here: LocalHost) -> list[Pool]:
    """The pools of a host."""
    return list(here.host.pools._pools.values())


def kernel_pid(process: UnconfinedProcess) -> int:
    """The process that a sandbox without walls is."""
    assert process._child is not None
    return process._child.pid


async def cleaned(workspace: KernelWorkspace) -> None:
    """Return when what a failed upload left is gone."""
    assert workspace._clean is not None
    await workspace._clean


def only_pool(here: LocalHost) -> Pool:
    """The pool of a host that has one."""
    (found,) = pools(here)
    return found


def ready(pool: Pool) -> list[KernelProcess]:
    """The processes that a pool keeps ready."""
    return list(pool._ready)


def places_taken(here: LocalHost) -> int:
    """How many of a host's places are taken."""
    return here.host.admission._taken


def being_put_to_sleep(here: LocalHost) -> Iterable[str]:
    """The ids of the sandboxes that a host is putting to sleep now."""
    return set(durability(here).expiry._trying)


def has_looked_at_all(here: UnconfinedHost) -> bool:
    """Whether a host sleeps until its next look at its durable sandboxes, and has done what the last one began."""
    return len(here.world.clock._sleepers) == CLOCKWORK and len(durability(here).expiry._tasks) == 1


def waits_for_transition(service: LocalService, owner: str, id: str) -> bool:
    """Whether an act waits until a sandbox has started, woken or fallen asleep."""
    return bool(service._transitions.of(owner, id)._waiters)  # type: ignore[attr-defined]


def lock_descriptor(lock: HostLock) -> int:
    """The open file of a host's lock."""
    return lock._descriptor


def use_settings(patch: pytest.MonkeyPatch, here: LocalHost, settings: Settings) -> None:
    """Have a host, its service and its builds of sources go by other settings, until the patch is undone."""
    for owner, name in ((here, "settings"), (here.host, "settings"), (here.host.shared.sources, "_settings")):
        patch.setattr(owner, name, settings)


def without_builds(patch: pytest.MonkeyPatch, here: LocalHost) -> None:
    """Have a host build nothing from source, as on a system without the native engine."""
    patch.setattr(here.host.shared.sources, "_builder", None)


def loop_thread(here: LocalHost) -> str:
    """The name of the thread of a host's background loop."""
    return here.background._thread.name


@contextmanager
def with_no_host() -> Iterator[None]:
    """This process has no host at first; one that is made meanwhile is closed at the end."""
    with replaceable_host():
        compose._here = None
        try:
            yield
        finally:
            compose.close()


@contextmanager
def replaceable_host() -> Iterator[Callable[[LocalHost], None]]:
    """Gives a function that makes sandboxes live on another host from then on, until the block ends."""
    before = compose._here

    def use(host: LocalHost) -> None:
        compose._here = host

    try:
        yield use
    finally:
        compose._here = before


@contextmanager
def short_path(folder: Path, name: str) -> Iterator[str]:
    """A path of a control socket that fits into an address."""
    from belljar.durable import control_socket

    with control_socket._short(folder, name) as path:
        yield path


# Of the native engine.


def jails(engine: Engine) -> dict[str, Jail]:
    """The jails that are up, by what they are for."""
    made: Any = engine
    return {key: task.result() for key, task in made._jails.items()}


def reserves(engine: Engine) -> dict[str, Reserve]:
    """The reserves of keepers, by the digest of what they are for."""
    made: Any = engine
    return dict(made._reserves)


def spare_keepers(reserve: Reserve) -> list[Keeper]:
    """The keepers that a reserve has made ahead."""
    return list(reserve._keepers)


def keeper(sandbox: AnySandbox) -> Keeper:
    """The keeper behind a native sandbox."""
    found: Keeper = process(sandbox).keeper
    return found


@contextmanager
def slow_kernel_channels(seconds: float) -> Iterator[None]:
    """Whatever a native kernel says within so many seconds is read at once."""
    from belljar.engines.native.link import Link

    real = Link._on_channel

    def later(link: Link) -> None:
        link.loop.remove_reader(link.channel.fileno())
        time.sleep(seconds)
        link.loop.add_reader(link.channel.fileno(), link._on_channel)
        real(link)

    Link._on_channel = later  # type: ignore[method-assign]
    try:
        yield
    finally:
        Link._on_channel = real  # type: ignore[method-assign]


def allow_missing(engine: Engine, layers: tuple[str, ...]) -> None:
    """Have a native engine start without these layers, as an operator may allow it. Runs on its loop."""

    async def admitted() -> tuple[str, ...]:
        return layers

    made: Any = engine
    made._admission = asyncio.ensure_future(admitted())


def pidfd(program: ConfinedProgram) -> int:
    """The descriptor that stands for a confined program."""
    return program._pidfd


def waiting_orders(keeper: Keeper) -> int:
    """How many orders a keeper has not answered yet."""
    return len(keeper._answers)


def pid_of(pidfd: int) -> int:
    """The pid on this machine of the process that a descriptor stands for."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pid:")))


def copier() -> Callable[..., None]:
    """What copies one entry of a folder for a live fork."""
    from belljar_jail import copying

    return copying._copy_one


def use_copier(patch: pytest.MonkeyPatch, copy: Callable[..., None]) -> None:
    """Have something else copy each entry of a folder, until the patch is undone."""
    from belljar_jail import copying

    patch.setattr(copying, "_copy_one", copy)


# Of the wasm engine.


def refuse_to_enter_folders(patch: pytest.MonkeyPatch) -> None:
    """Have mounted folders be as those that may be listed but not entered, until the patch is undone."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    patch.setattr("belljar.engines.wasm.folders._facts", refuse)


def runtime(engine: Engine) -> Runtime:
    """What a wasm engine runs, assembled first when it must be."""
    made: Any = engine
    found: Runtime = made._runtime.get()
    return found


def use_runtime(engine: Engine, runtime: Runtime) -> None:
    """Have a wasm engine run something else from now on."""
    made: Any = engine
    made._runtime._runtime = runtime


def runner(sandbox: AnySandbox) -> Any:
    """The Deno behind a wasm sandbox."""
    return process(sandbox)._runner


# Of a store.


def writing(store: SqliteStore) -> AbstractContextManager[sqlite3.Connection]:
    """A transaction of a store, as it is while the store writes."""
    return store._writing()


# Of an egress proxy.


def most_connections(network: Network) -> int:
    """How many connections to allowed hosts a sandbox may have at once."""
    return network._most


def gate(egress: Egress) -> Gate:
    """The gate of a proxy."""
    return egress._gate


def use_resolver(egress: Egress, resolver: Callable[..., Any]) -> Any:
    """Have a proxy ask another resolver from now on; returns the one before."""
    before, egress._gate._resolver = egress._gate._resolver, resolver
    return before


def use_denial_listener(egress: Egress, on_denial: Callable[..., Any]) -> None:
    """Have a proxy report its denials elsewhere from now on."""
    egress._gate._on_denial = on_denial


def record_connections(egress: Egress) -> list[Connection]:
    """A list that gets every connection of a proxy when it ends."""
    found: list[Connection] = []
    gate, ended = egress._gate, egress._gate._ended

    def note(line: Any) -> None:
        found.append(line.connection)
        ended(line)

    gate._ended = note  # type: ignore[method-assign]
    return found


def lines(egress: Egress) -> list[Any]:
    """The connections that a proxy has open."""
    return list(egress._gate._lines)


# Of a source of packages.


def address_of(source: Web, folder: Path) -> str:
    """Where a source would download from, once a folder has what says so."""
    return source._address(folder)


def note_downloads(source: Web) -> list[str]:
    """A list that gets the address of every download; nothing is downloaded from then on."""
    asked: list[str] = []

    def note(address: str, *_: object) -> None:
        asked.append(address)

    source._download = note  # type: ignore[assignment]
    return asked
