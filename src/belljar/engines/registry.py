"""Which engines there are, by name. Each is imported when it is first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable

from belljar.engines.base import Engine, EngineHealth
from belljar.engines.confinement import Confinement
from belljar.errors import EngineUnavailable, InvalidRequest
from belljar.settings import Settings

AUTO = "auto"
KNOWN = ("native", "wasm", "container")


def _native(registry: Registry) -> Engine:
    from belljar.engines.native.engine import NativeEngine

    return NativeEngine(registry.settings)


def _wasm(registry: Registry) -> Engine:
    from belljar.engines.wasm.engine import WasmEngine

    return WasmEngine(registry.settings, registry.confinement())


FACTORIES: dict[str, Callable[[Registry], Engine]] = {"native": _native, "wasm": _wasm}


class Registry:
    """The engines of one host, made once each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._made: dict[str, Engine] = {}
        self._auto: Engine | None = None

    async def choose(self, name: str) -> Engine:
        """The engine of that name; for `auto` the first whose self-check proves every layer.

        Raises:
            InvalidRequest: when there is no such engine.
            EngineUnavailable: when none holds its walls here.
        """
        if name != AUTO:
            return self.get(name)
        if self._auto is not None:
            return self._auto
        reports: list[EngineHealth] = []
        for candidate in FACTORIES:
            if candidate == "native" and sys.platform != "linux":
                continue
            engine = self.get(candidate)
            health = await engine.check()
            if health.available and (not health.missing or self.settings.allow_degraded):
                self._auto = engine  # its own start refuses, should a wall be missing later
                return engine
            reports.append(health)
        walls = "; ".join(
            f"{report.engine}: {layer.name}: {layer.detail}" for report in reports for layer in report.missing
        )
        raise EngineUnavailable(
            f"no engine holds its walls here. {walls}. `belljar doctor` says what to do", reports[0]
        )

    def get(self, name: str) -> Engine:
        """The engine of that name."""
        if name not in FACTORIES:
            later = (
                f"the {name} engine is not part of this version" if name in KNOWN else f"there is no engine {name!r}"
            )
            raise InvalidRequest(f"{later}; use one of: {', '.join((AUTO, *FACTORIES))}")
        if name not in self._made:
            self._made[name] = FACTORIES[name](self)
        return self._made[name]

    def confinement(self) -> Confinement | None:
        """The engine that lends its walls to others, where it can exist at all."""
        if sys.platform != "linux":
            return None
        native = self.get("native")
        return native if isinstance(native, Confinement) else None

    def outermost(self) -> list[int]:
        """The processes that must not outlive this host."""
        return [pid for engine in list(self._made.values()) for pid in engine.outermost()]

    def sweep(self) -> None:
        """Take away what hosts left that are gone. Blocks."""
        for engine in list(self._made.values()):
            engine.sweep()

    async def close(self) -> None:
        """End every engine that was made."""
        for engine in self._made.values():
            await engine.close()
        self._made.clear()
        self._auto = None
