"""The contract of an installer: it prepares what the sandboxes of one engine import from, and adds packages to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from belljar.packages.environment import Environment
from belljar.packages.progress import Progress
from belljar.packages.target import Target
from belljar.policy import Policy


class Installer(Protocol):
    """Makes environments for one engine. The registry chooses it together with the engine."""

    name: str  # of the engine that its environments are for

    @property
    def target(self) -> Target:
        """What it chooses packages for."""

    def environment(self, policy: Policy, progress: Progress | None = None, python: str | None = None) -> Environment:
        """What a sandbox with this policy imports from; prepared first when it must be, which takes long. Blocks.

        `python` names the CPython that it runs on, by version or path; None is the installer's own choice.

        Raises:
            InvalidRequest: when there is no such environment.
            PackageError: when it could not be prepared.
        """

    def is_prepared(self, policy: Policy, python: str | None = None) -> bool:
        """Whether `environment` returns at once."""

    def extend(
        self, environment: Environment, requirements: Sequence[str], seconds: float | None, offline: bool = False
    ) -> Environment:
        """The environment with these packages added; itself when it has them already. Blocks, for so long at the most.

        `offline` asks no index: only what this machine has.

        Raises:
            PackageError: with the reason; nothing is left behind then.
        """

    async def explain_import(self, module: str, environment: Environment, policy: Policy) -> str:
        """What to do about an import that failed. May take seconds, while an index is asked; never raises."""
