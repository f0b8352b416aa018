"""The contract that every engine keeps. An engine refuses what it cannot enforce; it never degrades in silence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar.packages.progress import Progress
from belljar.policy import Policy

if TYPE_CHECKING:
    from belljar.egress.server import Egress

Event = dict[str, Any]
OnEvent = Callable[[Event], None]
Sink = Callable[[bytes], object]
EntryType = Literal["file", "directory", "symlink", "other"]


def ignore(event: Event) -> None:
    """For Requests whose Events do not matter."""


@dataclass(frozen=True)
class Spec:
    """Everything an engine needs to know to build one sandbox."""

    id: str
    environment: Environment
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    env: Mapping[str, str] = field(default_factory=dict)
    egress: Callable[[], Awaitable[Egress]] | None = None  # its only way out, made when it is first needed


@dataclass(frozen=True)
class Layer:
    """One wall, and whether trying to break it failed as it should."""

    name: str
    holds: bool
    detail: str
    fix: str | None = None


@dataclass(frozen=True)
class EngineHealth:
    """What this machine can do for an engine, what is missing, and the exact fix."""

    engine: str
    available: bool
    layers: tuple[Layer, ...] = ()

    @property
    def missing(self) -> tuple[Layer, ...]:
        """The layers that do not hold."""
        return tuple(layer for layer in self.layers if not layer.holds)


@dataclass(frozen=True)
class Exit:
    """How a kernel ended, seen from outside: exactly one of `code` and `signal`, unless `broken`."""

    code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    broken: str | None = None


@dataclass(frozen=True)
class Sample:
    """What a sandbox has used so far, read from outside."""

    cpu_s: float
    peak_memory_bytes: int


@dataclass(frozen=True)
class Entry:
    """One entry of the workspace. `path` is relative to it; undecodable bytes in names are surrogate-escaped."""

    path: str
    type: EntryType
    size: int
    modified: float


Listing = list[Entry]


class KernelExited(Exception):
    """The kernel ended while a Request was open, or before it; carries the Exit."""

    def __init__(self, exit: Exit) -> None:
        super().__init__(str(exit))
        self.exit = exit


class CannotFork(Exception):
    """A sandbox cannot be forked live, here or in its present state; says why. A checkpoint may do."""


class Workspace(Protocol):
    """The sandbox's files. Paths are relative to `/workspace` and already checked to be plain.

    An engine inherits from it: it moves pieces, and what is whole is made of those.
    """

    async def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, with its parents.

        Raises:
            PathRefused: when the guest turned a part of the path into a way out.
            DiskFull: when it does not fit; nothing is left half-written.
        """
        await self.write_from(path, (data,))

    async def write_from(self, path: str, pieces: Iterable[bytes]) -> None:
        """The same with pieces, which are asked for one by one, and not on the loop."""

    async def read(self, path: str, max_bytes: int) -> bytes:
        """The content of a regular file.

        Raises:
            FileMissing: when there is none.
            FileTooLarge: over `max_bytes`.
            PathRefused: when it is not a regular file beneath the workspace.
        """
        content = bytearray()
        await self.read_into(path, max_bytes, content.extend)
        return bytes(content)

    async def read_into(self, path: str, max_bytes: int, sink: Sink) -> None:
        """The same, given to `sink` piece by piece, and not on the loop."""

    async def list(self, path: str, max_entries: int) -> Listing:
        """Everything beneath a folder, depth first and sorted by name; links are listed, not followed."""

    async def delete(self, path: str) -> None:
        """Remove a file, a link or a folder with all it has."""


class KernelProcess(Protocol):
    """One sandbox of an engine: a wall, a workspace, and the kernel that lives in it at the moment."""

    @property
    def workspace(self) -> Workspace:
        """Its files."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that every sandbox of this kind starts with; none is the host's."""

    @property
    def degraded(self) -> tuple[str, ...]:
        """The layers that are missing with the operator's leave."""

    rehearsals: int  # of a first run, for a sandbox in the pool: as many as make it fast

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request, pass its Events on as they come, and return the final one.

        Raises:
            KernelExited: when the kernel ends first, or breaks the protocol (it is killed then).
        """

    async def idle(self) -> None:
        """Return when no Request is open: an answer that nobody waits for any more is still due, and awaited here."""

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code and end the processes that it started."""

    async def kill(self) -> None:
        """End the kernel and everything it started; the workspace stays."""

    async def restart(self) -> bool:
        """Start a fresh kernel in the same walls and workspace; False when those were gone too, and made anew.

        Raises:
            StartFailed: when it did not come up; it may be tried again.
        """

    async def provide(self, environment: Environment) -> None:
        """Have the packages of another layer on the same environment at `environment.path`, now and after a restart.

        Raises:
            StartFailed: when they cannot be shown.
        """

    def sample(self) -> Sample:
        """What the sandbox has used so far."""

    def memory_bytes(self) -> int:
        """The memory that it has now."""

    async def close(self) -> None:
        """End everything and leave nothing behind. Idempotent."""


First = Callable[[KernelProcess], dict[str, Any]]  # makes a Request of a process, which may not be up yet


class Engine(Protocol):
    """Builds one kind of wall."""

    name: str
    capabilities: frozenset[str]  # of a policy, what it can enforce: "network", "mounts"
    most_connections: int  # to allowed hosts, at once, of one sandbox

    def environment(self, policy: Policy, progress: Progress | None = None, python: str | None = None) -> Environment:
        """What a sandbox with this policy imports from; prepared first when it must be, which takes long. Blocks.

        `python` names the CPython that it runs on, by version or path; None is the engine's own choice.

        Raises:
            InvalidRequest: when the engine has no such environment.
            PackageError: when it could not be prepared.
        """

    def is_prepared(self, policy: Policy, python: str | None = None) -> bool:
        """Whether environment() returns at once."""

    def extend(
        self, environment: Environment, requirements: Sequence[str], seconds: float | None, offline: bool = False
    ) -> Environment:
        """The environment with these packages, too; itself when it has them already. Blocks, for so long at the most.

        `offline` asks no index: only what this machine has.

        Raises:
            PackageError: with the reason; nothing is left behind then.
        """

    async def explain_import(self, module: str, environment: Environment, policy: Policy) -> str:
        """What to do about an import that failed. May take seconds, while an index is asked; never raises."""

    async def check(self) -> EngineHealth:
        """Prove each layer by trying to break it; cached where the proof still holds."""

    async def start(self, spec: Spec, first: First | None = None) -> KernelProcess:
        """Build a sandbox and return it once its kernel has answered `first`, which may be sent before its hello.

        Raises:
            EngineUnavailable: when a layer is missing and the operator did not allow that.
            StartFailed: when this one sandbox did not come up, or ended before it had answered.
        """

    async def fork(self, process: KernelProcess, spec: Spec) -> tuple[KernelProcess, list[str]]:
        """A copy of a live sandbox with a spec of its own, sharing no more than unwritten memory; and what was left.

        Whoever calls has the sandbox's turn.

        Raises:
            CannotFork: when it must be done through a checkpoint; the sandbox is as it was.
            KernelExited: when the sandbox's Python ended meanwhile.
            StartFailed: when the copy did not come up; nothing of it is left.
        """

    async def settle(self, process: KernelProcess, spec: Spec) -> bool:
        """Give a pooled process the spec of the sandbox it becomes; False when that spec needs a start of its own."""

    async def warm_up(self, environment: Environment) -> None:
        """Get ready to start sandboxes of this environment fast. Nobody waits for it."""

    def outermost(self) -> list[int]:
        """The processes that all others of this engine end with; what would be left if they outlived the host."""

    def sweep(self) -> None:
        """Take away what hosts left whose processes are all gone. Blocks."""

    async def close(self) -> None:
        """End every process of this engine."""
