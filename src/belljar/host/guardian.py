"""What a session awaits at fixed points of its life, so that a sandbox may outlive its Python."""

from __future__ import annotations

from typing import Protocol

from belljar.execution import Execution
from belljar.service.base import RunRequest


class Guardian(Protocol):
    """Saves a sandbox and brings it back. A session awaits each hook where its name says."""

    is_durable: bool

    async def before_run(self) -> None:
        """Get the state that earlier runs left out of the sandbox. The session holds its turn."""

    async def after_run(self, request: RunRequest, execution: Execution) -> None:
        """Record the run, and wait until the state that it began with is on the disk. The turn is free again."""

    async def recover(self) -> str | None:
        """Load the last state into a fresh Python; returns what was restored, in words. The session holds its turn."""

    async def outlook(self) -> str | None:
        """What the next run will continue from, in words, after the Python has ended; None when nothing is saved."""

    def used(self, changes: bool) -> None:
        """An act on the sandbox has ended, and may have changed it."""

    async def settle(self) -> None:
        """Return when everything is saved that can be.

        Raises:
            SandboxError: when the last state could not be saved.
        """

    def stop(self) -> None:
        """Save no more: the sandbox is being closed for good."""

    async def close(self, reason: str | None) -> None:
        """The sandbox was closed for good: delete what was saved."""


class Unguarded:
    """The guardian of a sandbox that ends with its process: nothing is saved."""

    is_durable = False

    async def before_run(self) -> None:
        """Do nothing."""

    async def after_run(self, request: RunRequest, execution: Execution) -> None:
        """Do nothing."""

    async def recover(self) -> str | None:
        """There is nothing to restore."""
        return None

    async def outlook(self) -> str | None:
        """There is nothing to continue from."""
        return None

    def used(self, changes: bool) -> None:
        """Do nothing."""

    async def settle(self) -> None:
        """There is nothing to wait for."""

    def stop(self) -> None:
        """Do nothing."""

    async def close(self, reason: str | None) -> None:
        """Do nothing."""
