"""The native engine: CPython behind Linux namespaces, cgroups, Landlock and seccomp, one fork away from ready."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from belljar.engines.base import KernelProcess, Spec
from belljar.engines.confinement import Program
from belljar.engines.native import cgroups, confined
from belljar.engines.native.confined import ConfinedProgram
from belljar.engines.native.health import Health
from belljar.engines.native.jail import Jail
from belljar.engines.native.launch import JailPlan, plan_for
from belljar.engines.native.process import NativeProcess, may_have
from belljar.engines.native.reserve import Reserve
from belljar.engines.native.trees import Trees
from belljar.engines.options import CannotFork
from belljar.errors import EngineUnavailable, InvalidRequest, StartFailed
from belljar.health import EngineHealth
from belljar.packages.environment import Environment
from belljar.settings import Settings

OPEN_FILES = 65_536
REHEARSALS = 1  # each touches, and so unshares, memory


class NativeEngine:
    """Builds native sandboxes for one host process."""

    capabilities: frozenset[str] = frozenset({"network", "mounts"})

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.health = Health(name, settings)
        self._jails: dict[str, asyncio.Task[Jail]] = {}
        self._reserves: dict[str, Reserve] = {}
        self._trees = Trees()
        self._group_name = cgroups.fresh_name()
        self._hierarchy: cgroups.Hierarchy | None = None
        self._looked_for_cgroups = False
        self._admission: asyncio.Task[tuple[str, ...]] | None = None

    async def check(self) -> EngineHealth:
        """Prove each layer by trying to break it; the proof is kept as long as it holds."""
        return await self.health.prove(self._start)

    async def start(self, spec: Spec) -> KernelProcess:
        """Build a sandbox, from the warm zygote when it is up, else from the bare one."""
        return await self._start(spec, await self._admitted())

    async def start_ahead(self, spec: Spec) -> KernelProcess:
        """Build a sandbox whose kernel has rehearsed a first run."""
        return await self._start(spec, await self._admitted(), REHEARSALS)

    async def fork(self, process: KernelProcess, spec: Spec) -> tuple[KernelProcess, list[str]]:
        """Copy a live sandbox on write, into walls and a control group made for the copy."""
        from belljar.engines.native import forking

        if not isinstance(process, NativeProcess):
            raise CannotFork("it is not a native sandbox")
        forking.check_possible(process)
        group = self._group(spec, self._bounds(process.jail, process.degraded))
        made = NativeProcess(process.jail, partial(self._jail, spec.environment), group, spec, process.degraded)
        try:
            return made, await forking.fork(process, made, spec)
        except BaseException:
            await made.close()
            raise

    async def confine(self, program: Program, spec: Spec) -> ConfinedProgram:
        """Start a foreign program behind the same walls, in a jail whose root has its folders."""
        degraded = await self._admitted()
        prepared = await asyncio.to_thread(confined.prepare, program)
        jail = await self._jail_of(prepared.key, partial(confined.plan_for, prepared, self.settings.cache_dir))
        spec = replace(spec, limits=confined.limits_for(program, spec.limits))
        process = ConfinedProgram(jail, self._group(spec, self._bounds(jail, degraded)), spec.limits, degraded)
        await process.start(prepared)
        return process

    async def _admitted(self) -> tuple[str, ...]:
        """The layers that are missing with the operator's leave; asked once, and again after a refusal."""
        if self._admission is None or (self._admission.done() and self._admission.exception() is not None):
            self._admission = asyncio.ensure_future(self._admit())
        return await asyncio.shield(self._admission)

    async def reconfigure(self, process: KernelProcess, spec: Spec) -> bool:
        """Give a process that was started ahead other limits and a way out; its disk stays."""
        if not isinstance(process, NativeProcess) or not process.fits(spec):
            return False
        await process.reconfigure(spec)
        return True

    async def warm_up(self, environment: Environment) -> None:
        """Have the environment's heavy modules imported, once, behind the wall, and keepers there."""
        if environment.warm and environment.is_warm:
            jail = await self._jail(environment)
            await jail.warm_up()
        if (reserve := self._reserves.get(environment.ground.digest)) is not None:
            await reserve.fill()

    @property
    def in_reserve(self) -> int:
        """How many keepers are there for sandboxes to come."""
        return sum(reserve.ready for reserve in self._reserves.values())

    def outermost(self) -> list[int]:
        """The launchers, and process 1 of each."""
        found: list[int] = []
        for task in self._jails.values():
            if task.done() and not _is_over(task):
                launcher = task.result().process.pid
                found += [launcher, *_children(launcher)]
        return found

    def sweep(self) -> None:
        """Control groups; those that are there when the engine starts are swept then."""
        if self._hierarchy is not None:
            self._hierarchy.sweep()

    async def close(self) -> None:
        """End every jail, and with it every sandbox."""
        await asyncio.gather(*(reserve.close() for reserve in self._reserves.values()), return_exceptions=True)
        self._reserves.clear()
        jails = await asyncio.gather(*self._jails.values(), return_exceptions=True)
        self._jails.clear()
        for jail in jails:
            if isinstance(jail, Jail):
                await jail.close()
        self._trees.close()
        if self._hierarchy is not None:
            await self._hierarchy.vanish()
            self._hierarchy, self._looked_for_cgroups = None, False

    async def _admit(self) -> tuple[str, ...]:
        """The layers that are missing with the operator's leave.

        Raises:
            EngineUnavailable: when one is missing without it.
        """
        health = await self.check()
        missing = tuple(layer.name for layer in health.missing)
        if not health.available or (missing and not self.settings.allow_degraded):
            raise EngineUnavailable(_refusal(health), health)
        return missing

    async def _start(self, spec: Spec, degraded: tuple[str, ...], rehearsals: int = 0) -> NativeProcess:
        if not may_have(spec.policy, degraded):
            raise InvalidRequest(
                "network=[...] is refused on this machine, where the wall around the network is missing;"
                " `belljar doctor` says how to get it"
            )
        jail = await self._jail(spec.environment)
        hierarchy = self._bounds(jail, degraded)
        reserve = await self._reserve(spec.environment.ground, jail, hierarchy)
        home = await reserve.take(spec.limits) or self._group(spec, hierarchy)
        process = NativeProcess(jail, partial(self._jail, spec.environment), home, spec, degraded)
        await process.start(rehearsals)
        reserve.refill_soon()
        return process

    async def _reserve(self, environment: Environment, jail: Jail, hierarchy: cgroups.Hierarchy | None) -> Reserve:
        """The reserve of a jail; that of one that ended, or of groups that were taken away, is given up."""
        former = self._reserves.get(environment.digest)
        if former is not None and former.jail is jail and former.hierarchy is hierarchy:
            return former
        reserve = self._reserves[environment.digest] = Reserve(jail, hierarchy, self.settings.reserve_size)
        if former is not None:
            await former.close()
        return reserve

    def _bounds(self, jail: Jail, degraded: tuple[str, ...]) -> cgroups.Hierarchy | None:
        """Where control groups are made; None with the operator's leave."""
        hierarchy = self._cgroups(jail)
        if hierarchy is None and "memory" not in degraded:  # a remembered proof does not know that it went away
            raise StartFailed(f"{cgroups.NONE_WRITABLE}, so nothing would hold this sandbox to its limits")
        return hierarchy

    def _group(self, spec: Spec, hierarchy: cgroups.Hierarchy | None) -> cgroups.Group | None:
        try:
            return hierarchy.make(spec.id, spec.limits) if hierarchy else None
        except OSError as failure:
            self._looked_for_cgroups = False  # it may have been taken away: look again next time
            raise StartFailed(f"no control group could be made for the sandbox: {failure}") from failure

    def _cgroups(self, jail: Jail) -> cgroups.Hierarchy | None:
        if not self._looked_for_cgroups:
            self._looked_for_cgroups = True
            try:
                self._hierarchy = cgroups.find(self._group_name, jail.process.pid)
            except cgroups.NoCgroups:
                self._hierarchy = None
        return self._hierarchy

    async def _jail(self, environment: Environment) -> Jail:
        """The jail of an environment."""
        ground = environment.ground
        return await self._jail_of(ground.digest, partial(plan_for, ground, self.settings.cache_dir))

    async def _jail_of(self, key: str, plan: Callable[[], JailPlan]) -> Jail:
        """A jail by name; launched once, mended when a zygote died, and launched again after it ended."""
        while True:
            task = self._jails.get(key)
            is_new = task is None or _is_over(task)
            if task is None or is_new:
                task = self._jails[key] = asyncio.ensure_future(self._launch(plan, task))
            jail = await asyncio.shield(task)
            try:
                await jail.mend()
            except StartFailed:
                if is_new or jail.init.failure is None:
                    raise
                continue  # it was ending already, and only its zygotes were known to be gone
            return jail

    async def _launch(self, plan: Callable[[], JailPlan], former: asyncio.Task[Jail] | None) -> Jail:
        if former is not None and not former.cancelled() and former.exception() is None:
            await former.result().close()
        _raise_open_files()
        return await Jail.launch(await asyncio.to_thread(plan), self._trees)


def _is_over(task: asyncio.Task[Jail]) -> bool:
    """Whether a jail never came up, or its process 1 is gone."""
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().init.failure is not None


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _raise_open_files() -> None:
    """Each sandbox holds about ten descriptors: use what this process may have anyway."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _refusal(health: EngineHealth) -> str:
    rows = [f"{layer.name}: {layer.detail}" + (f" (fix: {layer.fix})" if layer.fix else "") for layer in health.missing]
    return (
        "the native engine does not start, because a wall is missing. " + "; ".join(rows) + ". "
        "Fix it, or accept it with BELLJAR_ALLOW_DEGRADED=1 (it then shows in every Execution)"
    )
