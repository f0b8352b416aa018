"""Environments of a real CPython: the prepared set of this machine, and layers that uv adds to it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path

from belljar.packages import base
from belljar.packages.environment import Environment, default_python
from belljar.packages.progress import Progress
from belljar.packages.target import Target
from belljar.policy import Policy
from belljar.settings import Settings


class CPythonInstaller:
    """Prepares environments for an engine whose sandboxes run a CPython of this machine."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self._bases: dict[Path, Environment] = {}

    @cached_property
    def target(self) -> Target:
        """A CPython of this machine."""
        from belljar.packages.names import on_every_python

        return Target(self.name, preinstalled=on_every_python())

    def environment(self, policy: Policy, progress: Progress | None = None, python: str | None = None) -> Environment:
        """The base environment of a CPython, by default this process's own, or that Python alone."""
        path = _python(python)
        if policy.packages == "none":
            own = python is None or path == default_python()
            digest = "bare" if own else f"bare-{hashlib.sha256(bytes(path)).hexdigest()[:16]}"
            return Environment(path, digest=digest)
        if path not in self._bases:
            self._bases[path] = base.base_environment(path, self.settings.cache_dir, progress)
        return self._bases[path]

    def is_prepared(self, policy: Policy, python: str | None = None) -> bool:
        """Whether `environment` returns at once."""
        if python is not None:  # it may have to be looked for
            return False
        path = default_python()
        return path in self._bases or policy.packages == "none" or base.is_prepared(path, self.settings.cache_dir)

    def extend(
        self, environment: Environment, requirements: Sequence[str], seconds: float | None, offline: bool = False
    ) -> Environment:
        """Have uv add packages in a layer of their own."""
        from belljar.packages import layers, uv
        from belljar.packages.bounded import Budget

        longest = self.settings.install_timeout_s
        budget = Budget.of(longest if seconds is None else min(seconds, longest), self.settings.install_mb * 1_000_000)
        client = uv.Uv(self.settings, self.name, offline=offline)
        return layers.extend(environment, requirements, client, self.settings, budget)

    async def explain_import(self, module: str, environment: Environment, policy: Policy) -> str:
        """Distinguish a typo, no such package, no wheel, and no index."""
        from belljar.packages import missing
        from belljar.packages.modules import modules_of

        modules = await asyncio.to_thread(modules_of, environment)
        ask = partial(missing.explain, module, target=self.target, modules=modules, policy=policy)
        return await asyncio.to_thread(ask)


def _python(asked: str | None) -> Path:
    if asked is None:
        return default_python()
    from belljar.packages.pythons import find_python

    return find_python(asked)
