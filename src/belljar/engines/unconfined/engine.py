"""The engine without walls: it starts in tens of milliseconds, on any POSIX system, and confines nothing."""

from __future__ import annotations

from belljar.engines.base import KernelProcess, Spec
from belljar.engines.unconfined.process import UnconfinedProcess
from belljar.health import EngineHealth, Layer

WALLS = "walls"
NO_WALL = Layer(WALLS, False, "there is none: the code runs as an ordinary process of yours", "use another engine")


class UnconfinedEngine:
    """Starts kernels as plain child processes. `auto` never picks it, as its one layer does not hold."""

    capabilities: frozenset[str] = frozenset()

    def __init__(self, name: str) -> None:
        self.name = name
        self._processes: set[UnconfinedProcess] = set()

    async def check(self) -> EngineHealth:
        """Say that there is no wall."""
        return EngineHealth(self.name, True, (NO_WALL,))

    async def start(self, spec: Spec) -> KernelProcess:
        """Start a kernel with a folder of its own."""
        process = UnconfinedProcess(spec, (WALLS,))
        self._processes.add(process)
        process.on_closed = lambda: self._processes.discard(process)
        await process.start()
        return process

    async def close(self) -> None:
        """End every process of this engine."""
        for process in list(self._processes):
            await process.close()
