"""What an engine may have on top of its contract. The host asks for it by `isinstance`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from belljar.engines.base import KernelProcess, Spec
from belljar.packages.environment import Environment


class CannotFork(Exception):
    """A sandbox cannot be forked live, here or in its present state; says why. A checkpoint may do."""


@runtime_checkable
class WarmStart(Protocol):
    """An engine whose sandboxes can be made before anyone asks for them, and adapted when they are taken."""

    async def warm_up(self, environment: Environment) -> None:
        """Get ready to start sandboxes of this environment fast. No caller waits for it."""

    async def start_ahead(self, spec: Spec) -> KernelProcess:
        """Start a sandbox as `start` does, and let its kernel rehearse a first run, which takes longer."""

    async def reconfigure(self, process: KernelProcess, spec: Spec) -> bool:
        """Give a process that was started ahead another spec. False when that spec needs a start of its own.

        Raises:
            StartFailed: when the process ended meanwhile.
        """


@runtime_checkable
class LiveFork(Protocol):
    """An engine that can copy a live sandbox."""

    async def fork(self, process: KernelProcess, spec: Spec) -> tuple[KernelProcess, list[str]]:
        """Copy a live sandbox, with a spec of its own, sharing no more than unwritten memory. The caller has the turn.

        Returns:
            The copy, and what the copy does not have, such as threads.

        Raises:
            CannotFork: when it must be done through a checkpoint; the sandbox is as it was.
            KernelExited: when the sandbox's Python ended meanwhile.
            StartFailed: when the copy did not come up; nothing of it is left.
        """


@runtime_checkable
class Sweep(Protocol):
    """An engine that leaves things on the machine when its host is killed."""

    def outermost(self) -> list[int]:
        """The processes that all others of this engine end with: those that must not outlive the host."""

    def sweep(self) -> None:
        """Take away what hosts left whose processes are all gone. Blocks."""
