"""The contract that every engine keeps. An engine refuses what it cannot enforce; it never degrades in silence.

`Engine` and `KernelProcess` are all that an engine must have. `engines.options` has what it may have on top.
`engines.transport.seat` keeps most of `KernelProcess`, for engines whose kernel answers for the files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from belljar.entry import Listing
from belljar.health import EngineHealth
from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar.policy import Policy

if TYPE_CHECKING:
    from belljar.egress.network import Network

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drop an Event that does not matter."""


@dataclass(frozen=True)
class Spec:
    """Everything an engine needs to know to build one sandbox, as data. `policy` says what it may reach."""

    id: str
    environment: Environment
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    env: Mapping[str, str] = field(default_factory=dict)


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

    cpu_s: float = 0.0
    peak_memory_bytes: int = 0


class KernelExited(Exception):
    """The kernel ended while a Request was open, or before it; carries the Exit."""

    def __init__(self, exit: Exit) -> None:
        super().__init__(str(exit))
        self.exit = exit


class Workspace(Protocol):
    """The sandbox's files. Paths are relative to `/workspace`, and the caller has checked that they are plain."""

    async def write(self, path: str, pieces: bytes | AsyncIterator[bytes]) -> None:
        """Create or replace a file, with its parents. It is there as a whole or not at all.

        Raises:
            PathRefused: when code inside turned a part of the path into a way out.
            DiskFull: when it does not fit.
        """

    def read(self, path: str, max_bytes: int) -> AsyncIterator[bytes]:
        """The content of a regular file, in pieces.

        Raises:
            FileMissing: when there is none.
            FileTooLarge: over `max_bytes`.
            PathRefused: when it is not a regular file beneath the workspace.
        """

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
    def network(self) -> Network:
        """Its only way out, and what was refused on it."""

    @property
    def degraded(self) -> tuple[str, ...]:
        """The layers that are missing with the operator's leave."""

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request, pass its Events on as they come, and return the final one.

        Raises:
            KernelExited: when the kernel ends first, or breaks the protocol (it is killed then).
        """

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that has no answer, such as the `reply` to a `call`. It never blocks."""

    async def idle(self) -> None:
        """Return when no Request is open, also when its caller has left without the answer."""

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code and end the processes that it started."""

    async def kill(self) -> None:
        """End the kernel and everything it started; the workspace stays."""

    async def restart(self) -> bool:
        """Start a fresh kernel in the same walls and workspace and configure it as `start` does.

        Returns:
            False when walls or workspace were gone, and had to be made anew.

        Raises:
            StartFailed: when it did not come up; it may be tried again.
        """

    async def provide(self, environment: Environment) -> None:
        """Show the packages of another layer on the same environment at `environment.path`, now and after a restart.

        Raises:
            StartFailed: when they cannot be shown.
        """

    def sample(self) -> Sample:
        """What the sandbox has used so far."""

    def memory_bytes(self) -> int:
        """The memory that it has now."""

    async def close(self) -> None:
        """End everything and leave nothing behind. Idempotent."""


class Engine(Protocol):
    """Builds one kind of wall."""

    name: str
    capabilities: frozenset[str]  # of a policy, what it can enforce: "network", "mounts"

    async def check(self) -> EngineHealth:
        """Prove each layer by trying to break it; cached where the proof still holds."""

    async def start(self, spec: Spec) -> KernelProcess:
        """Build a sandbox and return it once its kernel has been configured for this spec.

        Raises:
            EngineUnavailable: when a layer is missing and the operator did not allow that.
            InvalidRequest: when this engine cannot enforce the spec.
            StartFailed: when this one sandbox did not come up, or ended before it was configured.
        """

    async def close(self) -> None:
        """End every process of this engine."""
