"""The host's end of one keeper: process 1 of a sandbox, which holds its walls and its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from belljar.engines.base import Exit
from belljar.engines.native.cgroups import Group
from belljar.engines.native.descriptors import gone, has_ended, readable
from belljar.engines.native.doorway import Doorway
from belljar.engines.native.family import Family
from belljar.engines.native.jail import Jail
from belljar.engines.native.trees import Trees
from belljar.engines.native.workspace import DescriptorWorkspace
from belljar.engines.options import CannotFork
from belljar.errors import StartFailed
from belljar.limits import Limits
from belljar_jail import wire
from belljar_jail.door import KINDS
from belljar_jail.ids import USER

Mounts = Mapping[str, str | PathLike[str]]  # folders of this machine by place

Answer = tuple[wire.Message, list[int]]

KILL_TIMEOUT_S = 5


class Keeper:
    """Orders to a keeper, and its confirmations."""

    def __init__(
        self,
        control: socket.socket,
        pidfd: int,
        workspace: DescriptorWorkspace,
        group: Group | None,
        doorway: Doorway | None,
        family: Family | None,
        place: int,
        trees: Trees,
    ) -> None:
        self._trees = trees
        self.pidfd = pidfd
        self.doorway = doorway  # a foreign program has none
        self.workspace = workspace
        self.group = group
        self.family = family
        self.place = place  # in the family
        self.generation = 0
        self._exits: dict[int, asyncio.Future[Exit]] = {}  # of forks' kernels, which no zygote made
        self.door = asyncio.Lock()  # one fork at a time passes
        self._orders = 0
        self._answers: dict[int, asyncio.Future[Answer]] = {}  # by the number of the order that each is to
        self.layer: Path | None = None  # whose packages it shows
        self.mounts: Mounts = {}  # that it shows
        self._control: socket.socket | None = control
        self._kills: list[asyncio.Future[None]] = []  # ordered, not yet confirmed
        self._shows: list[asyncio.Future[str | None]] = []  # the same
        asyncio.get_running_loop().add_reader(control.fileno(), self._on_message)

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
            workspace, *listeners = await _built(ours, 1 if jail.plan.root else 2)
        except BaseException:
            ours.close()
            await _end(pidfd)
            raise
        owner = family.host_id if family else None
        doorway = Doorway(listeners[0]) if listeners else None
        return cls(ours, pidfd, DescriptorWorkspace(workspace, owner), group, doorway, family, 0, jail.trees)

    async def nest(self, group: Group, limits: Limits, mounts: Mounts) -> tuple[Keeper, list[int]]:
        """Have a keeper made beneath this one, with a copy of the files, for a live fork; it, and the way to it.

        It has a network and a listener of its own, and the mounts from the beginning.

        Raises:
            StartFailed: with what could not be built; nothing is left behind.
        """
        assert self.family is not None
        family, place, pidfd = self.family, self.family.take(), -1
        ours, theirs = wire.pair()
        ours.setblocking(False)
        try:
            order = {"op": "nest", "map": family.map_for(place, self.place), "has_door": True, **disk_order(limits)}
            order |= {"generation": self.generation + 1, "mounts": [*mounts]}
            with theirs:
                trees = await self._open_all(mounts, family.host_id + place)
                number, nesting = self._next_answer()
                self._hand(order | {"order": number}, [theirs.fileno(), *trees, *group.joins], trees)
                answer, descriptors = await self._answer_to(number, nesting)
            if "error" in answer or not descriptors:
                raise StartFailed(f"the fork's walls could not be built: {answer.get('error', 'too many open files')}")
            pidfd = descriptors[0]
            (workspace, listener), way_in = await _way_in(ours)
        except BaseException:
            ours.close()
            await _end(pidfd)
            family.give_back(place)
            raise
        files = DescriptorWorkspace(workspace, family.host_id + place)
        keeper = Keeper(ours, pidfd, files, group, Doorway(listener), family, place, self._trees)
        keeper.generation, keeper.mounts = self.generation + 1, mounts
        return keeper, way_in

    async def admit(self, root: str, pid_namespace: int, way_in: list[int], ends: list[int]) -> int:
        """Open the door for one fork of the kernel in this pid namespace; its pidfd, when it stands behind the door.

        Raises:
            CannotFork: when the state does not allow it; the one that knocked was told so.
            StartFailed: when it failed on the way.
        """
        number, entering = self._next_answer()
        order = {"op": "door", "order": number, "root": root, "pid_namespace": pid_namespace}
        self._tell(order, [*way_in, *ends])
        answer, descriptors = await self._answer_to(number, entering)
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

    def expect(self) -> None:
        """Let who knocks wait until the door is opened, or shut."""
        self._tell({"op": "expect"})

    def release(self) -> None:
        """Let who stands behind the door go on."""
        self._tell({"op": "release"})

    def forsake(self) -> None:
        """Have it let go of the files and the network, when it stays for the sake of its forks alone."""
        self._tell({"op": "forsake"})
        self.workspace.close()
        self._close_doorway()

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
        trees = [] if layer is None else [await _off_loop(self._trees.tree_of, layer)]
        await self._show({"op": "packages"}, trees, "packages")
        self.layer = layer

    async def show_mounts(self, mounts: Mounts) -> None:
        """Have folders of this machine in the sandbox; once, and before there is a kernel.

        Raises:
            StartFailed: when one cannot be shown.
        """
        trees = await self._open_all(mounts, self.workspace.owner)
        await self._show({"op": "mounts", "at": [*mounts]}, trees, "mounts")
        self.mounts = mounts

    async def refresh_mounts(self) -> None:
        """Have the sandbox see what changed in those folders.

        Raises:
            StartFailed: when it cannot.
        """
        await self._show({"op": "refresh", "at": [*self.mounts]}, [], "mounts")

    async def end(self) -> None:
        """End it, and with it everything in the sandbox; the files go too."""
        self._let_go()
        self._close_doorway()
        pidfd, self.pidfd = self.pidfd, -1
        await _end(pidfd)
        self.workspace.close()
        if self.family is not None and pidfd >= 0:
            self.family.give_back(self.place)

    async def _show(self, message: wire.Message, trees: list[int], what: str) -> None:
        showing: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._shows.append(showing)
        self._hand(message, trees, trees)
        if self._control is None:
            raise StartFailed(f"{what} cannot be shown to the sandbox: its keeper is gone")
        if failure := await showing:
            raise StartFailed(f"{what} cannot be shown to the sandbox: {failure}")

    async def _open_all(self, mounts: Mounts, reader: int | None) -> list[int]:
        """Descriptors of the folders, for a sandbox with this host id. The caller closes them."""
        trees: list[int] = []
        with contextlib.ExitStack() as failed:
            for folder in mounts.values():
                trees.append(await _off_loop(self._trees.tree_for, Path(folder), reader))
                failed.callback(os.close, trees[-1])
            failed.pop_all()
        return trees

    def _close_doorway(self) -> None:
        doorway, self.doorway = self.doorway, None
        if doorway is not None:
            doorway.close()

    def _hand(self, message: wire.Message, descriptors: list[int], trees: list[int]) -> None:
        """Tell it something, and let go of the trees that go with it."""
        try:
            self._tell(message, descriptors)
        finally:
            for tree in trees:
                os.close(tree)

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
        elif received[0]["op"] == "shown" and self._shows:
            self._confirm_shown(received[0].get("error"))
        elif received[0]["op"] == "exit":
            ended = self._exits.pop(int(received[0]["pid"]), None)
            code = os.waitstatus_to_exitcode(int(received[0]["status"]))
            if ended is not None and not ended.done():
                ended.set_result(Exit(code=code) if code >= 0 else Exit(signal=-code))
        elif received[0]["op"] in ("nested", "entered"):
            self._confirm(self._answers.pop(int(received[0]["order"]), None), *received)

    def _let_go(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        while self._kills:
            self._confirm_kill()
        while self._shows:
            self._confirm_shown("its keeper is gone")
        while self._answers:
            self._confirm(self._answers.popitem()[1], {"error": "its keeper is gone"}, [])
        for ended in self._exits.values():
            if not ended.done():
                ended.set_result(Exit(signal=signal.SIGKILL))
        self._exits.clear()

    def _next_answer(self) -> tuple[int, asyncio.Future[Answer]]:
        """For an order that is answered with more than a yes: one that was given up may still be answered."""
        self._orders += 1
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[self._orders] = answer
        if self._control is None:
            self._confirm(answer, {"error": "its keeper is gone"}, [])
        return self._orders, answer

    async def _answer_to(self, order: int, answer: asyncio.Future[Answer]) -> Answer:
        try:
            return await answer
        finally:
            self._answers.pop(order, None)

    def _confirm(self, waiting: asyncio.Future[Answer] | None, answer: wire.Message, with_it: list[int]) -> None:
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
        showing = self._shows.pop(0)
        if not showing.done():
            showing.set_result(failure)


async def _off_loop(opens: Callable[..., int], *args: object) -> int:
    """A descriptor that a thread opens; closed when nobody waits for it any more."""
    opening = asyncio.ensure_future(asyncio.to_thread(opens, *args))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_tree)
        raise


def _close_tree(opening: asyncio.Future[int]) -> None:
    if opening.exception() is None:
        os.close(opening.result())


def disk_order(limits: Limits) -> dict[str, int]:
    """The size of a sandbox's disk, and the memory that it shows, as a keeper wants to hear them."""
    return {
        "disk_bytes": limits.disk_mb << 20,
        "inodes": max(1024, limits.disk_mb * 64),
        "memory_kb": limits.memory_mb << 10,
    }


async def _built(control: socket.socket, count: int) -> list[int]:
    """What a keeper that is ready hands out: its workspace and, unless it is a program's, its listener."""
    return (await _next(control, "ready", count))[1]


async def _way_in(control: socket.socket) -> tuple[list[int], list[int]]:
    """The same of a fork's keeper, and the way to it."""
    handed = await _built(control, 2)
    try:
        return handed, (await _next(control, "way_in", len(KINDS) + 1))[1]
    except BaseException:
        for descriptor in handed:
            os.close(descriptor)
        raise


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
