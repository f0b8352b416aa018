"""The place in a sandbox that its kernels take, one after the other: one Request at a time, about code or files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from belljar.egress.network import Network
from belljar.engines import exits
from belljar.engines.base import Event, Exit, KernelExited, OnEvent, Spec, ignore
from belljar.engines.kernel_workspace import KernelWorkspace
from belljar.engines.setup import configuration
from belljar.engines.transport.exchange import Exchange
from belljar.errors import FileError, SandboxClosed, StartFailed
from belljar.packages.environment import Environment

START_TIMEOUT_S = 60
ASK_TIMEOUT_S = 8  # about files


class Seat:
    """What a `KernelProcess` does alike whatever its walls are, for engines whose kernels answer for the files.

    An engine adds `bring_up`, `interrupt`, `kill`, `exit_facts`, `tear_down`, `sample` and `memory_bytes`.
    """

    degraded: tuple[str, ...] = ()

    def __init__(self, spec: Spec, variables: Mapping[str, str]) -> None:
        self.spec = spec
        self.variables = variables  # that every sandbox of this kind starts with
        self.network = Network(spec.policy.network)
        self.workspace = KernelWorkspace(self._ask)
        self.kernel: Exchange | None = None
        self._turn = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._is_spare = False  # the kernel was brought up for the sake of the files; it counts only after restart()
        self._closing: asyncio.Task[None] | None = None

    async def bring_up(self) -> None:
        """End the kernel that is there, if any, and have another one in `kernel` that has said hello.

        Raises:
            StartFailed: when it did not come up.
        """
        raise NotImplementedError

    async def kill(self) -> None:
        """End the kernel and everything it started; the workspace stays."""
        raise NotImplementedError

    async def exit_facts(self) -> Exit:
        """How the last kernel ended."""
        raise NotImplementedError

    async def tear_down(self) -> None:
        """Leave nothing behind, after the last kernel was killed."""
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""
        return self._is_up and not self._is_spare

    @property
    def _is_up(self) -> bool:
        return self._closing is None and self.kernel is not None and not self.kernel.ended.done()

    async def start(self) -> None:
        """Bring up the first kernel and configure it; nothing is left behind when that fails.

        Raises:
            StartFailed: with what it said.
        """
        try:
            async with self._turn, self._starting:
                await self._bring_up()
                await self._configure()
        except BaseException:
            await self.close()
            raise

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request and see it through."""
        async with self._turn:
            await self._answered()
            if not self.alive:
                raise KernelExited(await self.exit_facts())
            return await self._exchange(request, on_event)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        if self.alive and self.kernel is not None:
            self.kernel.send(message)

    async def idle(self) -> None:
        """Return when no Request is open, and none waits for its turn."""
        async with self._turn:
            await self._answered()

    async def restart(self) -> bool:
        """A fresh kernel in the same workspace, which outlives every kernel."""
        async with self._turn, self._starting:
            if not (self._is_spare and self._is_up):
                await self._bring_up()
            self._is_spare = False
            await self._configure()
            return True

    async def provide(self, environment: Environment) -> None:
        """Import from this environment after the next restart; only an engine with layers can show more than that."""
        if environment.layer is not None:
            raise StartFailed("this engine cannot show added packages to a sandbox that is there")
        self.spec = replace(self.spec, environment=environment)

    async def close(self) -> None:
        """End everything and leave nothing behind, even when nobody waits for it any more."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self.kill()
            async with self._starting:  # what comes up meanwhile is ended too
                await self.kill()
                await self.tear_down()
        finally:
            await self.network.close()

    async def _bring_up(self) -> None:
        if self._closing is not None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self.bring_up()
        except TimeoutError:
            raise StartFailed(f"the sandbox was not up after {START_TIMEOUT_S} s; is the machine overloaded?") from None
        except OSError as failure:
            raise StartFailed(f"the sandbox could not be started: {failure}") from failure

    async def _configure(self) -> None:
        try:
            await self._exchange(configuration(self.spec, self.variables), ignore)
        except KernelExited as ended:
            raise exits.in_set_up(ended.exit, self.spec.limits) from None

    async def _ask(self, request: dict[str, Any]) -> Event:
        """About files: they can be asked for between the end of one kernel and the start of the next."""
        async with self._turn:
            await self._answered()
            async with self._starting:
                if not self._is_up:
                    await self._bring_up()
                    self._is_spare = True
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    return await self._exchange(request, ignore)
            except TimeoutError:
                await self.kill()
                raise FileError("the sandbox did not answer about its files, and its Python was ended") from None

    async def _answered(self) -> None:
        if self.kernel is not None:
            await self.kernel.idle()

    async def _exchange(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        if self.kernel is None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        return await self.kernel.request(request, on_event, self._end_kernel)

    async def _end_kernel(self) -> Exit:
        """End what a kernel that gave no answer left running, itself when it broke the protocol; how it ended."""
        await self.kill()
        return await self.exit_facts()
