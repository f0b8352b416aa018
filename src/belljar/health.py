"""What a machine can do for an engine: the walls that were tried, whether each held, and how to repair it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One wall, and whether trying to break it failed as it should."""

    name: str
    holds: bool
    detail: str
    fix: str | None = None


@dataclass(frozen=True)
class EngineHealth:
    """What this machine can do for an engine, what is missing, and the exact fix.

    `available` says that the engine can run at all. `usable` says that it starts sandboxes here: no wall is missing, or
    the operator allows that (`BELLJAR_ALLOW_DEGRADED`).
    """

    engine: str
    available: bool
    layers: tuple[Layer, ...] = ()

    @property
    def missing(self) -> tuple[Layer, ...]:
        """The layers that do not hold."""
        return tuple(layer for layer in self.layers if not layer.holds)

    def usable(self, allow_degraded: bool) -> bool:
        """Whether the engine starts sandboxes on this machine."""
        return self.available and (not self.missing or allow_degraded)
