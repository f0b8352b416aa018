"""Which engines there are, by name, each with the installer of what its sandboxes import from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from belljar.engines.base import Engine
from belljar.engines.confinement import Confinement
from belljar.engines.options import Sweep
from belljar.errors import EngineUnavailable, InvalidRequest
from belljar.health import EngineHealth
from belljar.packages.installer import Installer
from belljar.settings import Settings

AUTO = "auto"
KNOWN = ("native", "wasm", "container")


@dataclass(frozen=True)
class Part:
    """How an engine and its installer are made: imported when the engine is first asked for."""

    make: Callable[[Registry], tuple[Engine, Installer]]
    is_possible: bool = True  # on this operating system


class Registry:
    """The engines and installers of one host, made once each. The order of the parts is that of `auto`."""

    def __init__(self, settings: Settings, parts: Mapping[str, Part] | None = None) -> None:
        self.settings = settings
        self._parts = dict(PARTS if parts is None else parts)
        self._made: dict[str, tuple[Engine, Installer]] = {}
        self._auto: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The engines that can be asked for, in the order in which `auto` tries them."""
        return tuple(self._parts)

    async def choose(self, name: str) -> Engine:
        """The engine of that name; for `auto` the first whose self-check proves every layer.

        Raises:
            InvalidRequest: when there is no such engine.
            EngineUnavailable: when none holds its walls here.
        """
        return self.engine(name if name != AUTO else await self.choose_auto())

    async def choose_auto(self) -> str:
        """The name that `auto` stands for on this machine.

        Raises:
            EngineUnavailable: when no engine holds its walls here.
        """
        reports: list[EngineHealth] = []
        for name, part in self._parts.items() if self._auto is None else ():
            if part.is_possible:
                health = await self.engine(name).check()
                if health.usable(self.settings.allow_degraded):
                    self._auto = name  # the engine's own start refuses, should a wall be missing later
                    break
                reports.append(health)
        if self._auto is None:
            walls = "; ".join(f"{each.engine}: {wall.name}: {wall.detail}" for each in reports for wall in each.missing)
            raise EngineUnavailable(
                f"no engine can isolate code on this machine. {walls}. Run `belljar doctor` for the fix",
                reports[0] if reports else None,
            )
        return self._auto

    def engine(self, name: str) -> Engine:
        """The engine of that name.

        Raises:
            InvalidRequest: when there is no such engine.
        """
        return self._pair(name)[0]

    def installer(self, name: str) -> Installer:
        """The installer of what an engine's sandboxes import from.

        Raises:
            InvalidRequest: when there is no such engine.
        """
        return self._pair(name)[1]

    def builder(self) -> tuple[Engine, Installer] | None:
        """The engine whose sandboxes build packages from source, with its installer: a real CPython behind walls."""
        part = self._parts.get("native")
        return self._pair("native") if part is not None and part.is_possible else None

    def confinement(self) -> Confinement | None:
        """The engine that lends its walls to others, where it can exist at all."""
        builder = self.builder()
        return builder[0] if builder is not None and isinstance(builder[0], Confinement) else None

    def outermost(self) -> list[int]:
        """The processes that must not outlive this host."""
        return [pid for engine in self._sweepers() for pid in engine.outermost()]

    def sweep(self) -> None:
        """Take away what hosts left that are gone. Blocks."""
        for engine in self._sweepers():
            engine.sweep()

    async def close(self) -> None:
        """End every engine that was made."""
        for engine, _ in self._made.values():
            await engine.close()
        self._made.clear()
        self._auto = None

    def _sweepers(self) -> list[Sweep]:
        return [engine for engine, _ in list(self._made.values()) if isinstance(engine, Sweep)]

    def _pair(self, name: str) -> tuple[Engine, Installer]:
        if name not in self._parts:
            later = (
                f"the {name} engine is not part of this version" if name in KNOWN else f"there is no engine {name!r}"
            )
            raise InvalidRequest(f"{later}; use one of: {', '.join((AUTO, *self._parts))}")
        if name not in self._made:
            self._made[name] = self._parts[name].make(self)
        return self._made[name]


def _native(registry: Registry) -> tuple[Engine, Installer]:
    from belljar.engines.native.engine import NativeEngine
    from belljar.packages.cpython_installer import CPythonInstaller

    return NativeEngine("native", registry.settings), CPythonInstaller("native", registry.settings)


def _wasm(registry: Registry) -> tuple[Engine, Installer]:
    from belljar.engines.wasm.assembled import AssembledRuntime
    from belljar.engines.wasm.engine import WasmEngine
    from belljar.packages.pyodide_installer import PyodideInstaller

    settings, builder = registry.settings, registry.builder()
    runtime = AssembledRuntime(settings)
    installer = PyodideInstaller("wasm", settings, runtime, builder[1].target if builder is not None else None)
    return WasmEngine("wasm", settings, runtime, installer, registry.confinement()), installer


PARTS: dict[str, Part] = {"native": Part(_native, is_possible=sys.platform == "linux"), "wasm": Part(_wasm)}
