"""How one engine lends its walls to another: a foreign program, started behind them and watched from outside.

Engines do not import each other; the registry hands the lender over as an object that keeps this contract.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from belljar.engines.base import Exit, Sample, Spec
from belljar.health import EngineHealth

TAKEN = ("/dev", "/etc", "/proc", "/sys")


@dataclass(frozen=True)
class Program:
    """An executable and all that it sees.

    `folders` maps an absolute path inside to a folder or file of the host, shown read-only. None may lie in another,
    none may change while programs run and, where the host runs as root, everybody must be able to read them. `argv[0]`
    is the executable's path inside; the libraries that it is linked with are found and shown without being named.
    `env` is its whole environment. `overhead_mb` and `threads` come on top of a sandbox's memory and processes,
    `start_cpus` on top of its processors until it has come up.
    """

    argv: tuple[str, ...]
    folders: Mapping[str, Path]
    env: Mapping[str, str] = field(default_factory=dict)
    overhead_mb: int = 0
    threads: int = 0
    start_cpus: float = 0

    def __post_init__(self) -> None:
        for path in self.folders:
            if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path or path == "/":
                raise ValueError(f"{path!r} is not a plain absolute path inside")
            if _within(path, TAKEN):
                raise ValueError(f"{path!r} is where the program's root has its own files")
            if _within(path, [other for other in self.folders if other != path]):
                raise ValueError(f"{path!r} lies in another folder")
        if not self.argv or not _within(self.argv[0], self.folders):
            raise ValueError("argv[0] must lie in one of the folders")

    def on_host(self, path: str) -> Path:
        """Where a path inside one of the folders is on the host."""
        (shown,) = [folder for folder in self.folders if _within(path, [folder])]
        return self.folders[shown] / path.removeprefix(shown).lstrip("/") if path != shown else self.folders[shown]


class Confined(Protocol):
    """A program behind its walls. The descriptors are the host's ends of its pipes: non-blocking, closed by close()."""

    stdin: int
    stdout: int
    stderr: int
    exit: asyncio.Future[Exit]  # done when the program has ended, however it did; never fails
    degraded: tuple[str, ...]  # the layers that are missing with the operator's leave

    def sample(self) -> Sample:
        """What it has used so far."""

    def memory_bytes(self) -> int:
        """The memory that it has now."""

    def settle(self) -> None:
        """It has come up: take back the processors that it had on top for that."""

    async def kill(self) -> None:
        """End it; what it wrote can still be read."""

    async def close(self) -> None:
        """End it, if it has not ended, and leave nothing behind. Idempotent; stop watching the descriptors first."""


@runtime_checkable
class Confinement(Protocol):
    """What an engine offers that can confine programs."""

    async def check(self) -> EngineHealth:
        """Prove each layer by trying to break it; cached where the proof still holds."""

    async def confine(self, program: Program, spec: Spec) -> Confined:
        """Start a program behind the walls, held to the spec's limits.

        Raises:
            EngineUnavailable: when a layer is missing and the operator did not allow that.
            StartFailed: when this one program did not come up.
        """


def _within(path: str, folders: Mapping[str, Path] | list[str] | tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
