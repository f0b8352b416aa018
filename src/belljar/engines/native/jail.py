"""The host's end of one jail: the launcher process, its process 1, the bare zygote and, when it is up, the warm one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import subprocess
from dataclasses import dataclass, field
from typing import Any

from belljar.engines.base import Exit
from belljar.engines.native.descriptors import gone
from belljar.engines.native.family import Family
from belljar.engines.native.launch import JailPlan, begin
from belljar.engines.native.trees import Trees
from belljar.errors import StartFailed
from belljar_jail import wire
from belljar_jail.ids import FAMILY

START_TIMEOUT_S = 30
WARM_TIMEOUT_S = 300


@dataclass
class Made:
    """A process that was made inside, with the descriptors that came along, and how it will end."""

    pid: int
    descriptors: list[int]
    exit: asyncio.Future[Exit]

    def pidfd(self) -> int:
        """Its handle; the system leaves it out when this process has no room for another open file."""
        if not self.descriptors:
            raise StartFailed("this process has too many open files")
        return self.descriptors[0]


@dataclass
class Zygote:
    """One forking server inside (process 1 is one too): orders out, answers and exits in."""

    control: socket.socket
    ready: asyncio.Future[None]
    failure: str | None = None
    _orders: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _answers: dict[int, asyncio.Future[Made]] = field(default_factory=dict)
    _exits: dict[int, asyncio.Future[Exit]] = field(default_factory=dict)

    @classmethod
    def attach(cls, control: socket.socket) -> Zygote:
        """Start listening to a zygote on its control socket."""
        loop = asyncio.get_running_loop()
        control.setblocking(False)
        zygote = cls(control, loop.create_future())
        zygote.ready.add_done_callback(lambda future: future.exception())
        loop.add_reader(control, zygote._on_readable)
        return zygote

    @property
    def usable(self) -> bool:
        """Whether it says it is ready and has not gone."""
        return self.ready.done() and self.ready.exception() is None and self.failure is None

    async def order(self, op: str, descriptors: list[int], **fields: Any) -> Made:
        """Have a process made.

        Raises:
            StartFailed: when it was not made, or the zygote is gone.
        """
        if self.failure is not None:
            raise StartFailed(self.failure)
        number = next(self._orders)
        self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            wire.send(self.control, {"op": op, "order": number, **fields}, descriptors)
            return await self._answers[number]
        except asyncio.CancelledError:
            _let_go(self._answers[number])
            raise
        except OSError as failure:
            raise StartFailed(f"the zygote could not be reached: {failure}") from failure
        finally:
            del self._answers[number]

    def detach(self, reason: str) -> None:
        """Stop listening; whoever waits is told why."""
        if self.failure is not None:
            return
        self.failure = reason
        asyncio.get_running_loop().remove_reader(self.control)
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)  # a forked child of ours may hold a copy of it
        self.control.close()
        if not self.ready.done():
            self.ready.set_exception(StartFailed(reason))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(StartFailed(reason))
        for exit_future in self._exits.values():
            if not exit_future.done():
                exit_future.set_result(Exit(broken=reason))
        self._exits.clear()

    def _on_readable(self) -> None:
        try:
            received = wire.receive(self.control, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self.detach("the zygote ended")
            return
        message, descriptors = received
        if message["op"] == "ready" and not self.ready.done():
            self.ready.set_result(None)
        elif message["op"] == "failed":
            self.detach(message["error"])
        elif message["op"] == "made":
            self._on_made(message, descriptors)
        elif message["op"] == "exit":
            self._on_exit(int(message["pid"]), int(message["status"]))

    def _on_made(self, message: wire.Message, descriptors: list[int]) -> None:
        answer = self._answers.get(message["order"])
        if "error" in message:
            if answer is not None and not answer.done():
                answer.set_exception(StartFailed(f"the zygote could not fork: {message['error']}"))
            return
        pid = int(message["pid"])
        ending = self._exits[pid] = asyncio.get_running_loop().create_future()  # before its end is told, always
        if answer is not None and not answer.done():
            answer.set_result(Made(pid, descriptors, ending))
        else:  # nobody waits any more; what was made ends by itself, as its other end is closed
            for descriptor in descriptors:
                os.close(descriptor)

    def _on_exit(self, pid: int, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        future = self._exits.pop(pid, None)
        if future is not None and not future.done():
            future.set_result(Exit(code=code) if code >= 0 else Exit(signal=-code))


@dataclass
class Jail:
    """One outer wall with its zygotes."""

    plan: JailPlan
    trees: Trees
    process: subprocess.Popen[bytes]
    init: Zygote
    bare: Zygote
    warm: Zygote | None = None
    _blocks: itertools.count[int] = field(default_factory=itertools.count)
    _mending: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def launch(cls, plan: JailPlan, trees: Trees) -> Jail:
        """Start a launcher, and wait until the bare zygote is there. `trees` opens what its sandboxes are shown.

        Raises:
            StartFailed: with what the launcher said.
        """
        launched = begin(plan)
        init = Zygote.attach(launched.control)
        jail = cls(plan, trees, launched.process, init, init)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.shield(init.ready)
                jail.bare = await jail._make_zygote(())
                await asyncio.shield(jail.bare.ready)
        except (StartFailed, TimeoutError) as failure:
            said = await jail._collect_stderr()
            await jail.close()
            raise StartFailed(f"the jail did not come up: {failure}{said}") from failure
        return jail

    def family(self) -> Family | None:
        """Ids, within the outer user namespace, for the next sandbox and its forks; None when there is but one id."""
        first, count = self.plan.ids
        if not self.plan.as_root:
            return None
        block = (next(self._blocks) % (count // FAMILY - 1) + 1) * FAMILY
        return Family(block, first + block)

    async def warm_up(self) -> None:
        """Fork a second zygote that imports the environment's heavy modules; returns when it is ready.

        Raises:
            StartFailed: when it ended instead.
        """
        if self.warm is not None and self.warm.failure is None:
            await asyncio.shield(self.warm.ready)
            return
        self.warm = await self._make_zygote(self.plan.warm)
        await asyncio.wait_for(asyncio.shield(self.warm.ready), WARM_TIMEOUT_S)

    async def mend(self) -> None:
        """Replace a zygote that ended; sandboxes that it had made live on."""
        if self._is_whole:
            return
        async with self._mending:  # once, however many sandboxes start
            if self.bare.failure is not None:
                self.bare = await self._make_zygote(())
            if self.warm is not None and self.warm.failure is not None:
                self.warm = await self._make_zygote(self.plan.warm)  # ready later: until then, best() is the bare one
        try:
            await asyncio.wait_for(asyncio.shield(self.bare.ready), START_TIMEOUT_S)
        except TimeoutError:
            raise StartFailed(f"a new zygote was not up after {START_TIMEOUT_S} s") from None

    @property
    def _is_whole(self) -> bool:
        return self.bare.usable and (self.warm is None or self.warm.failure is None)

    def best(self) -> Zygote:
        """The warm zygote when it is ready, else the bare one."""
        return self.warm if self.warm is not None and self.warm.usable else self.bare

    async def close(self) -> None:
        """End the jail: the pid namespace takes every keeper and kernel with it."""
        for zygote in (self.warm, self.bare, self.init):
            if zygote is not None:
                zygote.detach("the jail was closed")
        await _finish(self.process)

    async def _make_zygote(self, modules: tuple[str, ...]) -> Zygote:
        try:
            ours, theirs = wire.pair()
        except OSError as failure:
            raise StartFailed(f"a zygote could not be made: {failure}") from failure
        zygote = Zygote.attach(ours)
        with theirs:
            await self.init.order("zygote", [theirs.fileno()], modules=list(modules))
        return zygote

    async def _collect_stderr(self) -> str:
        """What the launcher had to say, once it is gone."""
        self.init.detach("the jail did not come up")
        text = await _finish(self.process)
        return f" ({text[-500:]})" if text else ""


def _let_go(answer: asyncio.Future[Made]) -> None:
    """The answer came in the very moment in which its caller left: close what came along."""
    if answer.done() and not answer.cancelled() and answer.exception() is None:
        for descriptor in answer.result().descriptors:
            os.close(descriptor)


async def _finish(process: subprocess.Popen[bytes]) -> str:
    """Wait for the launcher, which ends with its zygote, and return its last words; kill it when it does not end.

    Without a thread: this may run while the interpreter is on its way out.
    """
    if process.returncode is None:
        pidfd = os.pidfd_open(process.pid)
        if not await gone(pidfd, timeout=5):
            process.kill()
            await gone(pidfd, timeout=5)
        os.close(pidfd)
        process.wait()
    if process.stderr is None or process.stderr.closed:
        return ""
    with process.stderr as words:
        return words.read().decode(errors="replace").strip()
