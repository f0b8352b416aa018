"""The wasm engine: CPython compiled to WebAssembly, in a Deno process that may do nothing. Works everywhere."""

from __future__ import annotations

import asyncio
import time

from belljar.engines.base import KernelProcess, Spec
from belljar.engines.confinement import Confinement, Program
from belljar.engines.wasm.assembled import AssembledRuntime
from belljar.engines.wasm.assembly import INSIDE, Runtime
from belljar.engines.wasm.bare import BareRunner
from belljar.engines.wasm.deno import CACHE, ENVIRONMENT, sandbox_command
from belljar.engines.wasm.folders import IS_POSSIBLE
from belljar.engines.wasm.health import Health
from belljar.engines.wasm.jailed import JailedRunner
from belljar.engines.wasm.process import WasmProcess
from belljar.engines.wasm.runner import OnOutput, Runner
from belljar.errors import InvalidRequest
from belljar.health import EngineHealth
from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar.packages.pyodide_installer import LAYER_MB, PyodideInstaller
from belljar.settings import Settings

OVERHEAD_MB = 320  # what Deno takes beside Python's memory and the files: measured, see docs/limitations/wasm.md
THREADS = 96
HEADROOM_BYTES = 16 << 20  # a snapshot that leaves less than this to the code is not worth having
MOST_MEMORY_MB = 4096
ASK_JAIL_EVERY_S = 60
START_CPUS = 1  # V8 compiles beside the thread that boots
REHEARSALS = 20  # describe() takes 31 ms after one, 15 after twenty
DENO_INSIDE = "/deno/deno"


class WasmEngine:
    """Builds wasm sandboxes for one host process, behind another engine's walls where there are some."""

    capabilities: frozenset[str] = frozenset({"network", "mounts"} if IS_POSSIBLE else {"network"})

    def __init__(
        self,
        name: str,
        settings: Settings,
        runtime: AssembledRuntime,
        installer: PyodideInstaller,
        confinement: Confinement | None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.installer = installer
        self._runtime = runtime
        self._confinement = confinement
        self._has_jail = False
        self._ask_again_at = 0.0
        self._health = Health(self)

    @property
    def snapshot_failures(self) -> tuple[str, ...]:
        """Why sandboxes boot plainly or compile their scripts, if they do."""
        return self._runtime.present.failures if self._runtime.present is not None else ()

    async def check(self) -> EngineHealth:
        """Prove the wall by trying to break it, where the runtime is there already."""
        return await self._health.prove()

    async def start(self, spec: Spec) -> KernelProcess:
        """Start a process from the largest snapshot that its memory has room for."""
        return await self._start(spec, 0)

    async def start_ahead(self, spec: Spec) -> KernelProcess:
        """Start a process whose kernel has rehearsed a first run."""
        return await self._start(spec, REHEARSALS)

    async def reconfigure(self, process: KernelProcess, spec: Spec) -> bool:
        """Give a process that was started ahead other variables and a way out; memory and disk stay."""
        if not isinstance(process, WasmProcess) or not process.fits(spec):
            return False
        await process.reconfigure(spec)
        return True

    async def warm_up(self, environment: Environment) -> None:
        """Do nothing: every process boots from its snapshot."""

    async def close(self) -> None:
        """Take no more questions about imports; sandboxes are closed by their owners."""
        self.installer.close()

    async def jail(self) -> Confinement | None:
        """The engine that lends its walls; None when a wall of it is missing on this machine."""
        if self._confinement is None:
            return None
        if not self._has_jail and time.monotonic() >= self._ask_again_at:
            health = await self._confinement.check()
            self._has_jail = health.usable(self.settings.allow_degraded)
            self._ask_again_at = time.monotonic() + ASK_JAIL_EVERY_S
        return self._confinement if self._has_jail else None

    async def launch(self, spec: Spec, on_output: OnOutput) -> Runner:
        """Start one Deno for a spec."""
        runtime = self._runtime.present
        if runtime is None:
            runtime = await asyncio.to_thread(self._runtime.get)
        options = {
            "snapshot": snapshot_for(runtime, spec), "packages": spec.environment.site is not None,
            "diskBytes": spec.limits.disk_mb << 20, "mounts": [*spec.policy.mounts],
        }  # fmt: skip
        jail, limits = await self.jail(), spec.limits
        overhead = OVERHEAD_MB + limits.disk_mb + (LAYER_MB if spec.environment.layer is not None else 0)
        if jail is None:
            _check_bare(limits)
            argv = sandbox_command(str(runtime.deno), str(runtime.folder), limits.memory_mb, options)
            return await BareRunner.start(argv, on_output, (limits.memory_mb + overhead) << 20)
        argv = sandbox_command(DENO_INSIDE, INSIDE, limits.memory_mb, options, is_cached=True)
        env = {**ENVIRONMENT, "DENO_DIR": f"{INSIDE}/{CACHE}"}
        folders = {INSIDE: runtime.folder, DENO_INSIDE: runtime.deno.resolve()}
        confined = await jail.confine(Program(argv, folders, env, overhead, THREADS, START_CPUS), spec)
        try:
            return await JailedRunner.attach(confined, on_output)
        except BaseException:
            await confined.close()
            raise

    async def _start(self, spec: Spec, rehearsals: int) -> WasmProcess:
        if spec.limits.memory_mb > MOST_MEMORY_MB:
            raise InvalidRequest(
                f"memory_mb must be at most {MOST_MEMORY_MB} on the {self.name} engine, which has 32 bits"
            )
        process = WasmProcess(self.launch, spec)
        await process.start(rehearsals)
        return process


def snapshot_for(runtime: Runtime, spec: Spec) -> str | None:
    """The snapshot with most in it that leaves the code some memory; None to boot plainly."""
    is_warm = spec.environment.site is not None and spec.environment.is_warm
    wanted = ("science", "base") if is_warm else ("base",)
    room = (spec.limits.memory_mb << 20) - HEADROOM_BYTES
    return next((name for name in wanted if runtime.snapshots.get(name, room + 1) <= room), None)


def _check_bare(limits: Limits) -> None:
    if limits.cpus < 1:
        raise InvalidRequest(
            "less than one cpu cannot be enforced by the wasm engine here, as this machine has no native jail for it; "
            "use cpus=1"
        )
