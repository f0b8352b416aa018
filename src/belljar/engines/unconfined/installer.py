"""The environment of the engine without walls: the interpreter of this process. Nothing is ever installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from belljar.errors import InvalidRequest, PackageError
from belljar.packages.environment import Environment, default_python
from belljar.packages.progress import Progress
from belljar.packages.target import Target
from belljar.policy import Policy
from belljar.settings import Settings


class CurrentPython:
    """Needs nothing prepared. With `science`, the packages that native sandboxes have are shown, where they are."""

    def __init__(self, name: str, settings: Settings, science: bool = False) -> None:
        self.name = name
        self.target = Target(name)
        self._settings = settings
        self._science = science

    def environment(self, policy: Policy, progress: Progress | None = None, python: str | None = None) -> Environment:
        """This process's own Python, and no other.

        Raises:
            InvalidRequest: when another one is asked for.
        """
        del progress
        if python is not None:
            raise InvalidRequest(f"the {self.name} engine has the Python of this process only; leave python= out")
        bare = Environment(Path(sys.executable), digest=self.name)
        if not self._science or policy.packages == "none":
            return bare
        from belljar.packages import base

        if not base.is_prepared(default_python(), self._settings.cache_dir):
            return bare
        found = base.base_environment(default_python(), self._settings.cache_dir)
        return Environment(bare.python, found.site, f"{self.name}-{found.digest}", found.packages)

    def is_prepared(self, policy: Policy, python: str | None = None) -> bool:
        """Always."""
        del policy, python
        return True

    def extend(
        self, environment: Environment, requirements: Sequence[str], seconds: float | None, offline: bool = False
    ) -> Environment:
        """The environment as it is, when it has all of these already.

        Raises:
            PackageError: naming what it does not have.
        """
        del seconds, offline
        from belljar.packages.requirements import is_satisfied

        there = [*environment.packages, *(f"{each.name}=={each.version}" for each in metadata.distributions())]
        lacking = [text for text in requirements if not is_satisfied(text, there)]
        if lacking:
            raise PackageError(
                f"the {self.name} engine installs nothing, and {', '.join(lacking)} is not there; install it into "
                f"{environment.python} yourself, or use another engine"
            )
        return environment

    async def explain_import(self, module: str, environment: Environment, policy: Policy) -> str:
        """Say that nothing is installed here."""
        del policy
        return f"{module[:100]!r} is not there, and the {self.name} engine installs nothing into {environment.python}."
