"""Environments of Pyodide: its prepared set, and layers that pip downloads for WebAssembly."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from belljar.errors import InvalidRequest
from belljar.packages import missing, pins, pip, pyodide
from belljar.packages.bounded import Budget
from belljar.packages.environment import Environment, default_python
from belljar.packages.modules import modules_of_layer
from belljar.packages.progress import Progress, in_silence
from belljar.packages.target import Target
from belljar.policy import Policy
from belljar.settings import Settings
from belljar_kernel.protocol import WASM_PYTHON

LAYER_MB = 64  # packages that are added live in memory
MOST_EXPLANATIONS = 4  # that wait; a flood of imports that fail is not worth more


class Runtimes(Protocol):
    """Assembles what sandboxes run on, and packs layers for it."""

    def digest(self, progress: Progress) -> str:
        """The digest of the runtime, which is assembled first when it must be. Blocks."""

    @property
    def is_assembled(self) -> bool:
        """Whether `digest` returns at once."""

    def pack(self, layer: Path, budget: Budget) -> None:
        """Put a layer's packages into the form that a sandbox takes. Blocks."""


class PyodideInstaller:
    """Prepares environments for an engine whose sandboxes run CPython as WebAssembly."""

    def __init__(self, name: str, settings: Settings, runtimes: Runtimes, fuller: Target | None = None) -> None:
        self.name = name
        self._fuller = fuller  # of an engine that has more builds
        self.settings = settings
        self._runtimes = runtimes
        self._packages: pyodide.PyodideSet | None = None
        self._explaining = ThreadPoolExecutor(1, "belljar-explain")  # one at a time: each may be a process of its own
        self._explanations = 0

    @cached_property
    def target(self) -> Target:
        """Python as WebAssembly."""
        from belljar.packages.names import NO_BUILD

        preinstalled = frozenset(pin.requirement.partition("==")[0] for pin in pins.load().wheels)
        return Target(self.name, pip.FOR_WASM, preinstalled, NO_BUILD, self._fuller)

    def environment(self, policy: Policy, progress: Progress | None = None, python: str | None = None) -> Environment:
        """What a sandbox with this policy runs on; fetched and assembled first when it must be. Blocks."""
        if python is not None and python.removeprefix("python") not in ("3", WASM_PYTHON):
            advice = f"use engine={self._fuller.engine!r}" if self._fuller else "leave it out"
            raise InvalidRequest(
                f"the {self.name} engine has Python {WASM_PYTHON} and no other, not {python!r}; {advice}"
            )
        digest = self._runtimes.digest(progress or in_silence)
        if policy.packages == "none":
            return Environment(default_python(), None, f"{self.name}-bare-{digest}")
        found = self._packages = self._packages or pyodide.pyodide_set(self.settings.cache_dir, self.settings)
        return Environment(default_python(), found.site, f"{self.name}-{digest}", found.packages)

    def is_prepared(self, policy: Policy, python: str | None = None) -> bool:
        """Whether `environment` returns at once."""
        del policy, python  # there is but one
        return self._runtimes.is_assembled

    def extend(
        self, environment: Environment, requirements: Sequence[str], seconds: float | None, offline: bool = False
    ) -> Environment:
        """Have pip download packages for Pyodide, into a layer of their own."""
        from belljar.packages import foreign, layers

        longest, megabytes = self.settings.install_timeout_s, min(self.settings.install_mb, LAYER_MB)
        budget = Budget.of(longest if seconds is None else min(seconds, longest), megabytes * 1_000_000)
        client = foreign.Foreign(self.settings, self.target, offline=offline)
        finish = partial(self._runtimes.pack, budget=budget)
        return layers.extend(environment, requirements, client, self.settings, budget, finish)

    async def explain_import(self, module: str, environment: Environment, policy: Policy) -> str:
        """Distinguish a typo, no such package, no build for WebAssembly, and no index."""
        if environment.site is None:
            return "this sandbox has Python alone: it was made with packages='none'"
        if self._explanations >= MOST_EXPLANATIONS:
            return f"it is not preinstalled (`belljar packages list --engine {self.name}`)"
        self._explanations += 1
        modules = pyodide.known_modules(self.settings.cache_dir) | modules_of_layer(environment)
        ask = partial(missing.explain, module, target=self.target, modules=modules, policy=policy)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._explaining, ask)
        finally:
            self._explanations -= 1

    def close(self) -> None:
        """Take no more questions."""
        self._explaining.shutdown(wait=False, cancel_futures=True)
