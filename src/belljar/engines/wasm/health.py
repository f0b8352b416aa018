"""The proof of the wasm engine's wall: a sandbox is started, which tries to get out, and then tries its memory."""

from __future__ import annotations

import asyncio
from typing import Protocol

from belljar.engines.base import KernelExited, KernelProcess, Spec, ignore
from belljar.engines.confinement import Confinement
from belljar.engines.wasm.deno import find_deno
from belljar.errors import SandboxError
from belljar.health import EngineHealth, Layer
from belljar.limits import Limits
from belljar.packages.installer import Installer
from belljar.policy import Policy

PROBE_LIMITS = Limits(timeout_s=30, memory_mb=64, disk_mb=4)
SLOW = "sandboxes start slowly until the cache's `wasm` folder is removed and prepared anew"
_BOMB_CODE = """
blocks = []
try:
    while len(blocks) < 64: blocks.append(bytearray(4 << 20))
except MemoryError:
    count = len(blocks)
    blocks.clear()
count
"""
_BOMB = {"type": "run", "count": 1, "code": _BOMB_CODE, "env": {}}


class ProvenEngine(Protocol):
    """What a proof needs of the engine whose wall it tries."""

    name: str

    @property
    def installer(self) -> Installer:
        """Prepares what its sandboxes import from."""

    @property
    def snapshot_failures(self) -> tuple[str, ...]:
        """Why sandboxes boot plainly or compile their scripts, if they do."""

    async def jail(self) -> Confinement | None:
        """The engine that lends its walls, if there is one."""

    async def start(self, spec: Spec) -> KernelProcess:
        """Start a sandbox."""


class Health:
    """Proves the wall once per host process; every sandbox proves it again for itself when it starts."""

    def __init__(self, engine: ProvenEngine) -> None:
        self._engine = engine
        self._proof: asyncio.Task[EngineHealth] | None = None

    async def prove(self) -> EngineHealth:
        """The proof, a new one when the last did not hold."""
        if self._proof is not None and self._proof.done() and not _holds(self._proof):
            self._proof = None
        if self._proof is None:
            self._proof = asyncio.ensure_future(self._try())
        return await asyncio.shield(self._proof)

    async def _try(self) -> EngineHealth:
        try:
            deno = find_deno()
        except SandboxError as failure:
            return EngineHealth(self._engine.name, False, (Layer("deno", False, str(failure), "pip install deno"),))
        layers = [Layer("deno", True, str(deno))]
        policy = Policy(packages="none")
        if not await asyncio.to_thread(self._engine.installer.is_prepared, policy):
            detail = "not prepared yet: the first sandbox fetches it, or `belljar packages sync --engine wasm`"
            return EngineHealth(self._engine.name, True, (*layers, Layer("runtime", True, detail)))
        environment = await asyncio.to_thread(self._engine.installer.environment, policy)
        jail = await self._engine.jail()
        where = "inside the native jail" if jail else "by Deno alone: there is no native jail here"
        try:
            process = await self._engine.start(Spec("proof-wasm", environment, PROBE_LIMITS))
        except SandboxError as failure:
            return EngineHealth(self._engine.name, False, (*layers, Layer("permissions", False, str(failure))))
        try:
            layers.append(Layer("permissions", True, f"read, write, spawn, connect, import refused; {where}"))
            done = await asyncio.wait_for(process.request(_BOMB, ignore), PROBE_LIMITS.timeout_s)
            count = done.get("value")
            holds = type(count) is int and count * 4 < PROBE_LIMITS.memory_mb
            layers.append(
                Layer("memory", holds, "a memory bomb was stopped" if holds else "a memory bomb was not stopped")
            )
            layers += [Layer("snapshot", True, f"{SLOW}: {failure}") for failure in self._engine.snapshot_failures]
        except (KernelExited, TimeoutError) as failure:
            layers.append(Layer("memory", False, f"a memory bomb ended otherwise: {failure}"))
        finally:
            await process.close()
        return EngineHealth(self._engine.name, True, tuple(layers))


def _holds(proof: asyncio.Task[EngineHealth]) -> bool:
    if proof.cancelled() or proof.exception() is not None:
        return False
    return proof.result().available and not proof.result().missing
