"""What stays of a sandbox while its kernels come and end: one kernel at a time, and one Request at a time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from belljar.egress.network import Network
from belljar.engines.base import Event, Exit, KernelExited, OnEvent, Spec, ignore
from belljar.engines.kernel_workspace import KernelWorkspace
from belljar.engines.setup import configuration, see_configured
from belljar.engines.transport.exchange import Exchange
from belljar.errors import FileError, SandboxClosed, StartFailed
from belljar.packages.environment import Environment

START_TIMEOUT_S = 60.0
ASK_TIMEOUT_S = 8.0  # of a Request about files or packages
UNANSWERED = "the sandbox did not answer about its files, and its Python was ended; restart it, or make a new one"

E = TypeVar("E", bound=Exchange)


class Seat(ABC, Generic[E]):
    """The part of a `KernelProcess` that does not depend on its walls, for engines whose kernels answer about files.

    A seat holds one kernel. Another kernel takes its place after a restart, or when files are asked for and none is up.

    An engine adds `bring_up`, `interrupt`, `kill`, `exit_facts`, `tear_down`, `sample` and `memory_bytes`.
    """

    start_timeout_s = START_TIMEOUT_S

    def __init__(self, spec: Spec, variables: Mapping[str, str], network: Network | None = None) -> None:
        self.spec = spec
        self.variables = variables  # that every sandbox of this kind starts with
        self.network = network or Network(spec.policy.network)
        self.workspace = KernelWorkspace(self._ask)
        self.kernel: E | None = None
        self.are_files_kept = True
        self.closing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()  # taken before `_starting`, where both are
        self._starting = asyncio.Lock()
        self._is_spare = False  # the kernel was brought up for the sake of the files; it counts only after restart()

    @abstractmethod
    async def bring_up(self) -> None:
        """End the kernel that is there, if any, and have another one in `kernel` that has said hello.

        Raises:
            StartFailed: when it did not come up.
        """

    @abstractmethod
    async def kill(self) -> None:
        """End the kernel and everything it started; the workspace stays."""

    @abstractmethod
    async def exit_facts(self) -> Exit:
        """How the last kernel ended."""

    @abstractmethod
    async def tear_down(self) -> None:
        """Leave nothing behind, after the last kernel was killed."""

    async def answer_without_kernel(self, request: dict[str, Any]) -> Event | None:
        """The answer to a Request about files that needs no kernel, while there is none."""
        del request
        return None

    @property
    def is_up(self) -> bool:
        """Whether there is a kernel, also one that only answers about files."""
        return self.closing is None and self.kernel is not None and not self.kernel.ended.done()

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""
        return self.is_up and not self._is_spare

    async def start(self, rehearsals: int = 0) -> None:
        """Bring up the first kernel and configure it; nothing is left behind when that fails.

        Raises:
            StartFailed: with what it said.
        """
        try:
            async with self._turn, self._starting:
                await self._bring_up()
                await self._configure(rehearsals)
            if self.spec.policy.network:  # a mistake in the list is the caller's to know, before anything runs
                await self.network.egress()
        except BaseException:
            await self.close()
            raise

    async def configure(self) -> None:
        """Have the kernel take the spec as it is now.

        Raises:
            StartFailed: when it ended meanwhile, or did not answer in time and was ended.
        """
        async with self._turn:
            await self._end_unanswered()
            await self._configure()

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request and see it through."""
        async with self._turn:
            await self._until_idle()
            if not self.alive:
                raise KernelExited(await self.exit_facts())
            return await self.exchange(request, on_event)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        if self.alive and self.kernel is not None:
            self.kernel.send(message)

    async def idle(self) -> None:
        """Return when no Request is open, and none waits for its turn."""
        async with self._turn:
            await self._until_idle()

    async def restart(self) -> bool:
        """A fresh kernel with the files of the last; False when they are lost.

        Raises:
            StartFailed: when none came up that takes its configuration.
        """
        async with self._turn, self._starting:
            if not (self._is_spare and self.is_up):
                await self._bring_up()
            self._is_spare = False
            await self._configure()
            return self.are_files_kept

    async def provide(self, environment: Environment) -> None:
        """Have the kernel show another environment, now and after a restart."""
        async with self._turn:
            await self._end_unanswered()
            if self.is_up:
                await self.show(environment)
            self.spec = replace(self.spec, environment=environment)

    async def show(self, environment: Environment) -> None:
        """Show the packages of a layer to the kernel that is there. The caller has the turn.

        Raises:
            StartFailed: when they cannot be shown.
        """
        if environment.layer is not None:
            raise StartFailed("this engine cannot show added packages to a sandbox that is there")

    async def exchange(self, request: dict[str, Any], on_event: OnEvent = ignore) -> Event:
        """Send a Request to the kernel that is there, whatever it is there for. The caller has the turn."""
        if self.kernel is None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        return await self.kernel.request(request, on_event, self._end_kernel)

    async def close(self) -> None:
        """End everything and leave nothing behind, whatever becomes of the caller."""
        if self.closing is None:
            self.closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self.closing)

    async def _close(self) -> None:
        try:
            await self.kill()
            async with self._starting:  # what comes up meanwhile is ended too
                await self.kill()
                await self.tear_down()
        finally:
            await self.network.close()

    async def _bring_up(self) -> None:
        if self.closing is not None:
            raise SandboxClosed("this sandbox was closed; make a new one")
        limit = self.start_timeout_s
        try:
            async with asyncio.timeout(limit):
                await self.bring_up()
        except TimeoutError:
            raise StartFailed(f"the sandbox was not up after {limit:g} s; is the machine overloaded?") from None
        except OSError as failure:
            raise StartFailed(f"the sandbox could not be started: {failure}") from failure

    async def _configure(self, rehearsals: int = 0) -> None:
        first = configuration(self.spec, self.variables, rehearsals)
        await see_configured(self.exchange(first), self.kill, self.spec.limits)

    async def _ask(self, request: dict[str, Any]) -> Event:
        """About files: they can be asked for between the end of a kernel and the start of the next."""
        async with self._turn:
            if not await self._end_unanswered():
                raise FileError(UNANSWERED)
            async with self._starting:
                if not self.is_up:
                    if (known := await self.answer_without_kernel(request)) is not None:
                        return known
                    self._is_spare = True
                    await self._bring_up()
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    return await self.exchange(request)
            except TimeoutError:
                await self.kill()
                raise FileError(UNANSWERED) from None

    async def _until_idle(self) -> None:
        if self.kernel is not None:
            await self.kernel.idle()

    async def _end_unanswered(self) -> bool:
        """Wait for the answer to a Request whose caller has left; False when none came, and the kernel was ended.

        The caller has the turn, so no Request that has a caller is open.
        """
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                await self._until_idle()
        except TimeoutError:
            await self.kill()
            return False
        return True

    async def _end_kernel(self) -> Exit:
        """End what a kernel that gave no answer left running, itself when it broke the protocol; how it ended."""
        await self.kill()
        return await self.exit_facts()
