"""The host's end of one keeper: process 1 of a sandbox, which holds its walls and its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

from belljar.engines.base import CannotFork, Exit
from belljar.engines.native.cgroups import Group
from belljar.engines.native.descriptors import gone, has_ended, readable
from belljar.engines.native.family import Family
from belljar.engines.native.jail import Jail
from belljar.engines.native.trees import tree_of
from belljar.engines.native.workspace import DescriptorWorkspace
from belljar.errors import StartFailed
from belljar.limits import Limits
from belljar_jail import wire
from belljar_jail.door import KINDS
from belljar_jail.ids import USER

KILL_TIMEOUT_S = 5


class Keeper:
    """Orders to a keeper, and its confirmations."""

    def __init__(
        self,
        control: socket.socket,
        pidfd: int,
        workspace: DescriptorWorkspace,
        group: Group | None,
        family: Family | None,
        place: int,
    ) -> None:
        self.pidfd = pidfd
        self.workspace = workspace
        self.group = group
        self.family = family
        self.place = place  # in the family
        self.generation = 0
        self._exits: dict[int, asyncio.Future[Exit]] = {}  # of forks' kernels, which no zygote made
        self.door = asyncio.Lock()  # one fork at a time passes
        self._nesting: asyncio.Future[tuple[wire.Message, list[int]]] | None = None
        self._entering: asyncio.Future[tuple[wire.Message, list[int]]] | None = None
        self.layer: Path | None = None  # whose packages it shows
        self._control: socket.socket | None = control
        self._kills: list[asyncio.Future[None]] = []  # ordered, not yet confirmed
        self._showing: asyncio.Future[str | None] | None = None
        asyncio.get_running_loop().add_reader(control, self._on_message)

    @classmethod
    async def start(cls, jail: Jail, group: Group | None, limits: Limits) -> Keeper:
        """Have the sandbox's own walls built around a new process 1.

        Raises:
            StartFailed: with what could not be built; nothing is left behind.
        """
        ours, theirs = wire.pair()
        ours.setblocking(False)
        family, pidfd = jail.family(), -1
        try:
            with theirs:
                made = await jail.init.order(
                    "keeper", [theirs.fileno(), *(group.joins if group else [])],
                    map=family.map_for(0, None) if family else f"{USER} 0 1", may_set_groups=jail.plan.as_root,
                    root=jail.plan.root, has_door=jail.plan.has_doors, **disk_order(limits),
                )  # fmt: skip
                pidfd = made.pidfd()
            workspace = await _built(ours)
        except BaseException:
            ours.close()
            await _end(pidfd)
            raise
        owner = family.host_id if family else None
        return cls(ours, pidfd, DescriptorWorkspace(workspace, owner), group, family, 0)

    async def nest(self, group: Group, limits: Limits) -> tuple[Keeper, list[int]]:
        """Have a keeper made beneath this one, with a copy of the files, for a live fork; it, and the way to it.

        Raises:
            StartFailed: with what could not be built; nothing is left behind.
        """
        assert self.family is not None
        family, place, pidfd = self.family, self.family.take(), -1
        ours, theirs = wire.pair()
        ours.setblocking(False)
        try:
            nesting = self._nesting = asyncio.get_running_loop().create_future()
            order = {"op": "nest", "map": family.map_for(place, self.place), "has_door": True, **disk_order(limits)}
            order["generation"] = self.generation + 1
            with theirs:
                self._tell(order, [theirs.fileno(), *group.joins])
                answer, descriptors = await nesting
            if "error" in answer or not descriptors:
                raise StartFailed(f"the fork's walls could not be built: {answer.get('error', 'too many open files')}")
            pidfd = descriptors[0]
            workspace = await _built(ours)
            _, way_in = await _next(ours, "way_in", len(KINDS) + 1)
        except BaseException:
            ours.close()
            await _end(pidfd)
            family.give_back(place)
            raise
        files = DescriptorWorkspace(workspace, family.host_id + place)
        keeper = Keeper(ours, pidfd, files, group, family, place)
        keeper.generation = self.generation + 1
        return keeper, way_in

    async def admit(self, root: str, pid_namespace: int, way_in: list[int], ends: list[int]) -> int:
        """Open the door for one fork of the kernel in this pid namespace; its pidfd, when it stands behind the door.

        Raises:
            CannotFork: when the state does not allow it; the one that knocked was told so.
            StartFailed: when it failed on the way.
        """
        entering = self._entering = asyncio.get_running_loop().create_future()
        self._tell({"op": "door", "root": root, "pid_namespace": pid_namespace}, [*way_in, *ends])
        answer, descriptors = await entering
        if "refused" in answer:
            raise CannotFork(answer["refused"])
        if "error" in answer or not descriptors:
            raise StartFailed(f"the fork did not reach its walls: {answer.get('error', 'too many open files')}")
        pidfd: int = descriptors[0]
        return pidfd

    def watch(self, pid: int) -> asyncio.Future[Exit]:
        """How the kernel of a fork ends, by its number in this sandbox's pid namespace."""
        ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._exits[pid] = ended
        self._tell({"op": "watch", "pid": pid})
        return ended

    def release(self) -> None:
        """Let who stands behind the door go on."""
        self._tell({"op": "release"})

    def forsake(self) -> None:
        """Have it let go of the files, when it stays for the sake of its forks alone."""
        self._tell({"op": "forsake"})
        self.workspace.close()

    def shut(self) -> None:
        """Close the door; who stands in it ends."""
        self._tell({"op": "shut"})

    @property
    def alive(self) -> bool:
        """Whether it can still be told things."""
        return self._control is not None and not has_ended(self.pidfd)

    def introduce(self, kernel: int, listeners: list[int]) -> None:
        """Tell it the kernel's pid inside, and hand over the listener of its filter."""
        self._tell({"op": "kernel", "pid": kernel}, listeners)

    async def kill(self, spare_kernel: bool) -> None:
        """Have everything in the sandbox ended, or all but the kernel; returns when that is done."""
        if self._control is None:
            return
        killed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kills.append(killed)
        self._tell({"op": "kill", "spare": spare_kernel})
        await asyncio.wait((killed,), timeout=KILL_TIMEOUT_S)

    async def show_packages(self, layer: Path | None) -> None:
        """Have a folder of packages in the sandbox in place of the last one, or none.

        Raises:
            StartFailed: when it cannot be shown.
        """
        trees = [] if layer is None else [tree_of(layer)]
        showing = self._showing = asyncio.get_running_loop().create_future()
        try:
            self._tell({"op": "packages"}, trees)
        finally:
            for tree in trees:
                os.close(tree)
        if self._control is None:
            raise StartFailed("packages cannot be shown to the sandbox: its keeper is gone")
        if failure := await showing:
            raise StartFailed(f"packages cannot be shown to the sandbox: {failure}")
        self.layer = layer

    async def end(self) -> None:
        """End it, and with it everything in the sandbox; the files go too."""
        self._let_go()
        pidfd, self.pidfd = self.pidfd, -1
        await _end(pidfd)
        self.workspace.close()
        if self.family is not None and pidfd >= 0:
            self.family.give_back(self.place)

    def _tell(self, message: wire.Message, descriptors: list[int] | None = None) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):
                wire.send(self._control, message, descriptors)

    def _on_message(self) -> None:
        """What it was asked for is done, or the kernel has ended that no zygote made, or itself."""
        if self._control is None:
            return
        try:
            received = wire.receive(self._control, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self._let_go()
        elif received[0]["op"] == "killed" and self._kills:
            self._confirm_kill()
        elif received[0]["op"] == "shown":
            self._confirm_shown(received[0].get("error"))
        elif received[0]["op"] == "exit":
            ended = self._exits.pop(int(received[0]["pid"]), None)
            code = os.waitstatus_to_exitcode(int(received[0]["status"]))
            if ended is not None and not ended.done():
                ended.set_result(Exit(code=code) if code >= 0 else Exit(signal=-code))
        elif received[0]["op"] in ("nested", "entered"):
            self._confirm(self._nesting if received[0]["op"] == "nested" else self._entering, *received)

    def _let_go(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None
        while self._kills:
            self._confirm_kill()
        self._confirm_shown("its keeper is gone")
        for waiting in (self._nesting, self._entering):
            self._confirm(waiting, {"error": "its keeper is gone"}, [])
        for ended in self._exits.values():
            if not ended.done():
                ended.set_result(Exit(signal=signal.SIGKILL))
        self._exits.clear()

    def _confirm(
        self, waiting: asyncio.Future[tuple[wire.Message, list[int]]] | None, answer: wire.Message, with_it: list[int]
    ) -> None:
        if waiting is not None and not waiting.done():
            waiting.set_result((answer, with_it))
            return
        for descriptor in with_it:
            os.close(descriptor)

    def _confirm_kill(self) -> None:
        killed = self._kills.pop(0)
        if not killed.done():
            killed.set_result(None)

    def _confirm_shown(self, failure: str | None) -> None:
        if self._showing is not None and not self._showing.done():
            self._showing.set_result(failure)


def disk_order(limits: Limits) -> dict[str, int]:
    """The size of a sandbox's disk, and the memory that it shows, as a keeper wants to hear them."""
    return {
        "disk_bytes": limits.disk_mb << 20,
        "inodes": max(1024, limits.disk_mb * 64),
        "memory_kb": limits.memory_mb << 10,
    }


async def _built(control: socket.socket) -> int:
    """The workspace of a keeper that is ready."""
    _, descriptors = await _next(control, "ready", 1)
    return descriptors[0]


async def _next(control: socket.socket, operation: str, count: int) -> tuple[wire.Message, list[int]]:
    await readable(control.fileno())
    received = wire.receive(control, socket.MSG_CMSG_CLOEXEC)
    if received is None or received[0]["op"] != operation or len(received[1]) != count:
        for descriptor in received[1] if received else ():
            os.close(descriptor)
        said = received[0].get("error", "no room for its descriptors") if received else "it ended"
        raise StartFailed(f"the sandbox's walls could not be built: {said}")
    return received


async def _end(pidfd: int) -> None:
    if pidfd >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        await gone(pidfd, KILL_TIMEOUT_S)
        os.close(pidfd)
