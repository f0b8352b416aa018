"""What packages are chosen for: the Python of one engine, as a package index and as users know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WHEELS_ONLY = ("--only-binary", ":all:")


@dataclass(frozen=True)
class Target:
    """One engine's Python. `no_build` names distributions that have none for it, with the reason.

    `fuller` is the target of an engine that has more builds, which hints name. None when there is no such engine.
    """

    engine: str
    pip_options: tuple[str, ...] = WHEELS_ONLY
    preinstalled: frozenset[str] = frozenset()
    no_build: Mapping[str, str] = field(default_factory=dict)
    fuller: Target | None = None

    def lacks(self, distribution: str) -> str:
        """What is missing, for a sentence that begins with the distribution's name."""
        why = f": {self.no_build[distribution]}" if distribution in self.no_build else ""
        return f"has no build for the {self.engine} engine{why}"
