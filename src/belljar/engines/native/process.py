"""One native sandbox seen from the host: its keeper, the kernel in it at the moment, its cgroup and its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from typing import Any

from belljar.engines.base import Event, Exit, KernelExited, OnEvent, Sample, Spec
from belljar.engines.native.cgroups import Group
from belljar.engines.native.descriptors import gone, has_ended, readable
from belljar.engines.native.jail import Jail, Zygote
from belljar.engines.native.link import Link
from belljar.engines.native.workspace import DescriptorWorkspace
from belljar.errors import StartFailed
from belljar.limits import Limits
from belljar_jail import wire
from belljar_kernel import PROTOCOL, digest

START_TIMEOUT_S = 30
KILL_TIMEOUT_S = 5
OPEN_FILES = 1024


class NativeProcess:
    """A sandbox of the native engine."""

    def __init__(self, jail: Jail, group: Group | None, spec: Spec, degraded: tuple[str, ...]) -> None:
        self.jail = jail
        self.group = group
        self.limits = spec.limits
        self.degraded = degraded
        self.workspace = DescriptorWorkspace(-1, None)
        self.kernel: Link | None = None
        self.control: socket.socket | None = None
        self.keeper = -1
        self.exit: asyncio.Future[Exit] | None = None
        self.is_warm = False
        self._request_ids = 0
        self._oom_kills = 0
        self._closing = False
        self._kills: list[asyncio.Future[None]] = []  # ordered, not yet confirmed

    @property
    def environment(self) -> dict[str, str]:
        """The variables that every sandbox starts with."""
        return self.jail.plan.env

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""
        return (
            not self._closing
            and self.kernel is not None
            and not self.kernel.ended.done()
            and (self.exit is None or not self.exit.done())
            and not has_ended(self.kernel.pidfd)
        )

    async def start(self) -> None:
        """Bring up the keeper and a first kernel.

        Raises:
            StartFailed: with the step that failed; nothing is left behind.
        """
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._start_keeper()
                await self._start_kernel(self.jail.best())
        except TimeoutError:
            await self.close()
            raise StartFailed(f"the sandbox was not up after {START_TIMEOUT_S} s") from None
        except BaseException:
            await self.close()
            raise

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request and see it through."""
        kernel = self.kernel
        if kernel is None or self.exit is None or not self.alive:
            raise KernelExited(await self._exit_facts())
        self._request_ids += 1
        kernel.drain()
        kernel.open_id, kernel.on_event, kernel.done = self._request_ids, on_event, kernel.loop.create_future()
        try:
            kernel.send({**request, "id": self._request_ids})
            done = await kernel.done
            if done is None:
                await self.kill()  # whatever the kernel left running, and the kernel itself when it broke the protocol
                kernel.drain()
                raise KernelExited(await self._exit_facts())
            return done
        finally:
            kernel.on_event, kernel.open_id = None, 0

    async def interrupt(self) -> None:
        """SIGINT to the kernel, SIGKILL to everything else in the sandbox."""
        if self.kernel is not None and self.kernel.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.kernel.pidfd, signal.SIGINT)
        await asyncio.wait((self._order_kill(spare=True),), timeout=KILL_TIMEOUT_S)

    async def kill(self) -> None:
        """SIGKILL to everything but the keeper; returns when that is done, so that no later kernel is hit."""
        killed = self._order_kill()
        if self.kernel is not None and self.kernel.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.kernel.pidfd, signal.SIGKILL)
        if self.exit is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.exit), KILL_TIMEOUT_S)
        await asyncio.wait((killed,), timeout=KILL_TIMEOUT_S)

    async def restart(self) -> None:
        """A fresh fork in the same walls and workspace; in new ones when the keeper is gone, and the files with it."""
        await self.kill()
        self._drop_kernel()
        async with asyncio.timeout(START_TIMEOUT_S):
            await self.jail.mend()
            if self.control is None or has_ended(self.keeper):
                await self._end_keeper()
                self.workspace.close()
                await self._start_keeper()
            await self._start_kernel(self.jail.best())

    def sample(self) -> Sample:
        """Processor time so far and the most memory there was."""
        if self.group is None:
            return Sample(0.0, 0)
        return Sample(self.group.cpu_s(), self.group.peak_bytes())

    def fits(self, limits: Limits) -> bool:
        """Whether settle() can give it these limits."""
        return disk_order(limits) == disk_order(self.limits)

    def settle(self, limits: Limits) -> None:
        """Take other limits than those it was made with."""
        if self.group is not None and limits != self.limits:
            self.group.set(limits)
        self.limits = limits

    async def close(self) -> None:
        """End everything and leave nothing behind."""
        if self._closing:
            return
        self._closing = True
        await self._end_keeper()
        if self.exit is not None and not self.exit.done():
            self.exit.set_result(Exit(signal=signal.SIGKILL))
        self._drop_kernel()
        self.workspace.close()
        if self.group is not None:
            for _ in range(200):
                if self.group.remove():
                    break
                await asyncio.sleep(0.01)

    async def _start_keeper(self) -> None:
        ours, theirs = wire.pair()
        ours.setblocking(False)
        self.control = ours
        slot = self.jail.slot()
        joins = self.group.joins if self.group else []
        with theirs:
            _, descriptors = await self.jail.init.order(
                "keeper", [theirs.fileno(), *joins],
                slot=slot, may_set_groups=self.jail.plan.as_root, **disk_order(self.limits),
            )  # fmt: skip
        (self.keeper,) = descriptors
        received = await _receive(ours)
        if received is None or received[0]["op"] != "ready":
            said = received[0]["error"] if received else "it ended"
            raise StartFailed(f"the sandbox's walls could not be built: {said}")
        owner = self.jail.plan.ids[0] + slot if self.jail.plan.as_root else None
        self.workspace = DescriptorWorkspace(received[1][0], owner)
        asyncio.get_running_loop().add_reader(ours, self._on_keeper)

    async def _start_kernel(self, zygote: Zygote) -> None:
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        kernel = self.kernel = Link(ours, {"stdout": out_read, "stderr": err_read})
        said: list[str] = []
        kernel.on_event = lambda event: said.append(event.get("text", ""))
        joins = self.group.joins if self.group else []
        without = [name for name in self.degraded if name in ("landlock", "seccomp")]
        try:
            answer, descriptors = await zygote.order(
                "kernel", [self.keeper, theirs.fileno(), out_write, err_write, *joins],
                rlimits=rlimits(self.limits), without=without,
            )  # fmt: skip
        finally:
            theirs.close()
            os.close(out_write)
            os.close(err_write)
        (kernel.pidfd,) = descriptors
        self.exit = zygote.exit_of(int(answer["pid"]))
        self.exit.add_done_callback(lambda _: kernel.end(None))
        self.is_warm = zygote is self.jail.warm
        self._oom_kills = self.group.out_of_memory_kills() if self.group else 0
        await asyncio.wait((kernel.hello, kernel.ended), return_when=asyncio.FIRST_COMPLETED)
        kernel.on_event = None
        if not kernel.hello.done():
            raise StartFailed(f"the kernel did not come up: {''.join(said)[-500:] or 'it ended'}")
        _check_hello(kernel.hello.result())
        if kernel.pid_inside is None:
            raise StartFailed("the kernel did not say that its walls are closed")
        self._tell_keeper({"op": "kernel", "pid": kernel.pid_inside}, kernel.listeners)
        kernel.close_listeners()

    def _drop_kernel(self) -> None:
        if self.kernel is not None:
            self.kernel.close()
            self.kernel = None

    async def _exit_facts(self) -> Exit:
        """How the kernel ended, from whoever knows it: the zygote for the status, the cgroup for the cause."""
        if self.exit is None:
            return Exit(broken="it never started")
        try:
            facts = await asyncio.wait_for(asyncio.shield(self.exit), KILL_TIMEOUT_S)
        except TimeoutError:
            await self.kill()
            facts = Exit(broken="it stopped answering")
        said = self.kernel.ended.result() if self.kernel and self.kernel.ended.done() else None
        broken = said or facts.broken
        kills = self.group.out_of_memory_kills() if self.group and self.group.joins else 0
        oom = kills > self._oom_kills and facts.signal == signal.SIGKILL
        return Exit(facts.code, facts.signal, oom, broken)

    def _order_kill(self, spare: bool = False) -> asyncio.Future[None]:
        """Have the keeper end everything, or all but the kernel; done when it says so or is gone itself."""
        killed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.control is None:
            killed.set_result(None)
        else:
            self._kills.append(killed)
            self._tell_keeper({"op": "kill", "spare": spare})
        return killed

    async def _end_keeper(self) -> None:
        self._let_go_of_keeper()
        keeper, self.keeper = self.keeper, -1
        if keeper >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(keeper, signal.SIGKILL)
            await gone(keeper, KILL_TIMEOUT_S)
            os.close(keeper)

    def _let_go_of_keeper(self) -> None:
        if self.control is not None:
            asyncio.get_running_loop().remove_reader(self.control)
            self.control.close()
            self.control = None
        while self._kills:
            self._confirm_kill()

    def _confirm_kill(self) -> None:
        killed = self._kills.pop(0)
        if not killed.done():
            killed.set_result(None)

    def _tell_keeper(self, message: wire.Message, descriptors: list[int] | None = None) -> None:
        if self.control is not None and not self._closing:
            with contextlib.suppress(OSError):
                wire.send(self.control, message, descriptors)

    def _on_keeper(self) -> None:
        """All that the keeper says later is that it killed, and its end."""
        if self.control is None:
            return
        try:
            received = wire.receive(self.control, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self._let_go_of_keeper()
        elif received[0]["op"] == "killed" and self._kills:
            self._confirm_kill()


def rlimits(limits: Limits) -> dict[str, int]:
    """The limits of each process; the cgroup bounds their sum."""
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_FSIZE": limits.disk_mb << 20,
        "RLIMIT_MEMLOCK": 1 << 16,
        "RLIMIT_MSGQUEUE": 0,
    }


def disk_order(limits: Limits) -> dict[str, int]:
    """The size of a sandbox's disk, as its keeper wants to hear it."""
    return {
        "disk_bytes": limits.disk_mb << 20,
        "inodes": max(1024, limits.disk_mb * 64),
        "memory_kb": limits.memory_mb << 10,
    }


def _check_hello(hello: Event) -> None:
    if hello.get("protocol") != PROTOCOL or hello.get("digest") != digest():
        raise StartFailed("the kernel inside is not the one that this Belljar brought; clear the cache folder")


async def _receive(end: socket.socket) -> tuple[wire.Message, list[int]] | None:
    await readable(end.fileno())
    return wire.receive(end, socket.MSG_CMSG_CLOEXEC)
