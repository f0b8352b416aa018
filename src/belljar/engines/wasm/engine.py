"""The wasm engine: CPython compiled to WebAssembly, in a Deno process that may do nothing. Works everywhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from belljar.engines import exits
from belljar.engines.base import CannotFork, EngineHealth, First, KernelExited, KernelProcess, Spec, ignore
from belljar.engines.confinement import Confinement, Program
from belljar.engines.wasm.assembly import INSIDE, Runtime, is_assembled, runtime_of
from belljar.engines.wasm.bare import BareRunner
from belljar.engines.wasm.deno import CACHE, ENVIRONMENT, sandbox_command
from belljar.engines.wasm.folders import IS_POSSIBLE
from belljar.engines.wasm.health import Health
from belljar.engines.wasm.jailed import JailedRunner
from belljar.engines.wasm.layer import pack_layer
from belljar.engines.wasm.process import WasmProcess
from belljar.engines.wasm.runner import OnOutput, Runner
from belljar.errors import InvalidRequest
from belljar.limits import Limits
from belljar.packages import missing, pyodide
from belljar.packages.environment import Environment, default_python
from belljar.packages.modules import modules_of_layer
from belljar.packages.progress import Progress, in_silence, part_of
from belljar.policy import Policy
from belljar.settings import Settings

NAME = "wasm"
OVERHEAD_MB = 320  # what Deno takes beside Python's memory and the files: measured, see docs/limitations/wasm.md
THREADS = 96
LAYER_MB = 64  # packages that are added live in memory
PYTHON = "3.14"
HEADROOM_BYTES = 16 << 20  # a snapshot that leaves less than this to the code is not worth having
MOST_MEMORY_MB = 4096
MOST_EXPLANATIONS = 4  # that wait; a flood of imports that fail is not worth more
ASK_JAIL_EVERY_S = 60
START_CPUS = 1  # V8 compiles beside the thread that boots
DENO_INSIDE = "/deno/deno"


class WasmEngine:
    """Builds wasm sandboxes for one host process, behind another engine's walls where there are some."""

    name = NAME
    capabilities: frozenset[str] = frozenset({"network", "mounts"} if IS_POSSIBLE else {"network"})
    most_connections = 64  # this process holds the bodies that are on their way

    def __init__(self, settings: Settings, confinement: Confinement | None) -> None:
        self.settings = settings
        self._confinement = confinement
        self._has_jail = False
        self._ask_again_at = 0.0
        self._explaining = ThreadPoolExecutor(1, "belljar-explain")  # one at a time: each may be a process of its own
        self._explanations = 0
        self._runtime: Runtime | None = None
        self._packages: pyodide.PyodideSet | None = None
        self._health = Health(self)

    def environment(self, policy: Policy, progress: Progress | None = None, python: str | None = None) -> Environment:
        """What a sandbox with this policy runs on; fetched and assembled first when it must be. Blocks."""
        _check_python(python)
        runtime = self._runtime = self._runtime or self._assemble(progress or in_silence)
        if policy.packages == "none":
            return Environment(default_python(), None, f"wasm-bare-{runtime.digest}")
        found = self._packages = self._packages or pyodide.pyodide_set(self.settings.cache_dir, self.settings)
        return Environment(default_python(), found.site, f"wasm-{runtime.digest}", found.packages)

    def is_prepared(self, _: Policy, python: str | None = None) -> bool:  # noqa: ARG002 -- there is but one
        """Whether environment() returns at once."""
        cache = self.settings.cache_dir
        if self._runtime is not None:
            return True
        return pyodide.is_prepared(cache) and is_assembled(pyodide.pyodide_set(cache, self.settings), cache)

    def extend(
        self, environment: Environment, requirements: Sequence[str], seconds: float | None, offline: bool = False
    ) -> Environment:
        """Have pip download packages for Pyodide, into a layer of their own."""
        from belljar.packages import foreign, layers
        from belljar.packages.bounded import Budget

        longest, megabytes = self.settings.install_timeout_s, min(self.settings.install_mb, LAYER_MB)
        budget = Budget.of(longest if seconds is None else min(seconds, longest), megabytes * 1_000_000)
        client = foreign.Foreign(self.settings, offline=offline)
        runtime = self._runtime = self._runtime or self._assemble(in_silence)
        finish = partial(pack_layer, runtime=runtime, budget=budget)
        return layers.extend(environment, requirements, client, self.settings, budget, finish)

    async def explain_import(self, module: str, environment: Environment, policy: Policy) -> str:
        """Tells a typo, no such package, no build for this engine and no index apart."""
        if environment.site is None:
            return "this sandbox has Python alone: it was made with packages='none'"
        if self._explanations >= MOST_EXPLANATIONS:
            return "it is not preinstalled (`belljar packages list --engine wasm`)"
        self._explanations += 1
        modules = pyodide.known_modules(self.settings.cache_dir) | modules_of_layer(environment)
        try:
            ask = partial(missing.explain, module, engine=NAME, settings=self.settings, modules=modules, policy=policy)
            return await asyncio.get_running_loop().run_in_executor(self._explaining, ask)
        finally:
            self._explanations -= 1

    @property
    def snapshot_failures(self) -> tuple[str, ...]:
        """Why sandboxes boot plainly or compile their scripts, if they do."""
        return self._runtime.failures if self._runtime else ()

    async def check(self) -> EngineHealth:
        """Prove the wall by trying to break it, where the runtime is there already."""
        return await self._health.prove()

    async def start(self, spec: Spec, first: First | None = None) -> KernelProcess:
        """Start a process from the largest snapshot that its memory has room for."""
        if spec.limits.memory_mb > MOST_MEMORY_MB:
            raise InvalidRequest(f"memory_mb must be at most {MOST_MEMORY_MB} on the wasm engine, which has 32 bits")
        process = WasmProcess(
            partial(self.launch, spec), spec.environment, spec.limits, spec.egress, spec.policy.mounts
        )
        await process.start()
        try:
            if first is not None:
                await process.request(first(process), ignore)
        except BaseException as failure:
            await process.close()
            if isinstance(failure, KernelExited):
                raise exits.in_set_up(failure.exit, spec.limits) from None
            raise
        return process

    async def fork(self, process: KernelProcess, spec: Spec) -> tuple[KernelProcess, list[str]]:
        """Not here: WebAssembly has one process, and Deno cannot copy its memory."""
        del process, spec
        raise CannotFork("the wasm engine has no copies of a live Python")

    async def settle(self, process: KernelProcess, spec: Spec) -> bool:
        """Memory and disk are settled at the start; the rest is the host's to keep."""
        assert isinstance(process, WasmProcess)
        fixed = replace(spec.limits, timeout_s=process.limits.timeout_s, output_mb=process.limits.output_mb)
        if fixed != process.limits:
            return False
        process.limits, process.egress = spec.limits, spec.egress
        return True

    async def warm_up(self, environment: Environment) -> None:
        """Nothing: every process boots from its snapshot."""

    def outermost(self) -> list[int]:
        """None of its own: each process ends when the host lets go of it."""
        return []

    def sweep(self) -> None:
        """Nothing: its processes have no control groups but the jail's."""

    async def close(self) -> None:
        """Nothing is kept between sandboxes but a thread."""
        self._explaining.shutdown(wait=False, cancel_futures=True)

    async def jail(self) -> Confinement | None:
        """Whoever lends us walls here; None when their own engine is not whole on this machine."""
        if self._confinement is None:
            return None
        if not self._has_jail and time.monotonic() >= self._ask_again_at:
            health = await self._confinement.check()
            self._has_jail = health.available and (not health.missing or self.settings.allow_degraded)
            self._ask_again_at = time.monotonic() + ASK_JAIL_EVERY_S
        return self._confinement if self._has_jail else None

    async def launch(self, spec: Spec, environment: Environment, on_output: OnOutput) -> Runner:
        """Start one Deno for a spec, and what it imports from now."""
        spec = replace(spec, environment=environment)
        if self._runtime is None:
            await asyncio.to_thread(self.environment, spec.policy)
        runtime = self._runtime
        assert runtime is not None
        options = {
            "snapshot": snapshot_for(runtime, spec), "packages": spec.environment.site is not None,
            "diskBytes": spec.limits.disk_mb << 20, "mounts": [*spec.policy.mounts],
        }  # fmt: skip
        jail, limits = await self.jail(), spec.limits
        overhead = OVERHEAD_MB + limits.disk_mb + (LAYER_MB if environment.layer is not None else 0)
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

    def _assemble(self, progress: Progress) -> Runtime:
        found = pyodide.pyodide_set(self.settings.cache_dir, self.settings, part_of(progress, 0.0, 0.5))
        return runtime_of(found, self.settings.cache_dir, part_of(progress, 0.5, 1.0))


def snapshot_for(runtime: Runtime, spec: Spec) -> str | None:
    """The snapshot with most in it that leaves the code some memory; None to boot plainly."""
    is_warm = spec.environment.site is not None and spec.environment.is_warm
    wanted = ("science", "base") if is_warm else ("base",)
    room = (spec.limits.memory_mb << 20) - HEADROOM_BYTES
    return next((name for name in wanted if runtime.snapshots.get(name, room + 1) <= room), None)


def _check_python(asked: str | None) -> None:
    if asked is not None and asked.removeprefix("python") not in ("3", PYTHON):
        raise InvalidRequest(
            f"the wasm engine has Python {PYTHON} and no other, so python={asked!r} cannot be; use engine='native'"
        )


def _check_bare(limits: Limits) -> None:
    if limits.cpus < 1:
        raise InvalidRequest(
            "less than one cpu cannot be enforced by the wasm engine here, as this machine has no native jail for it; "
            "use cpus=1"
        )
