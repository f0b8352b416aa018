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

from belljar.engines.native.cgroups import Group
from belljar.engines.native.descriptors import gone, has_ended, readable
from belljar.engines.native.doorway import Doorway
from belljar.engines.native.jail import Jail
from belljar.engines.native.trees import tree_for, tree_of
from belljar.engines.native.workspace import DescriptorWorkspace
from belljar.errors import StartFailed
from belljar.limits import Limits
from belljar_jail import wire

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
    ) -> None:
        self.pidfd = pidfd
        self.doorway = doorway  # a foreign program has none
        self.workspace = workspace
        self.group = group
        self.layer: Path | None = None  # whose packages it shows
        self.mounts: Mapping[str, str | PathLike[str]] = {}  # the host's folders that it shows, by place
        self._control: socket.socket | None = control
        self._kills: list[asyncio.Future[None]] = []  # ordered, not yet confirmed
        self._shows: list[asyncio.Future[str | None]] = []  # the same
        asyncio.get_running_loop().add_reader(control, self._on_message)

    @classmethod
    async def start(cls, jail: Jail, group: Group | None, limits: Limits) -> Keeper:
        """Have the sandbox's own walls built around a new process 1.

        Raises:
            StartFailed: with what could not be built; nothing is left behind.
        """
        ours, theirs = wire.pair()
        ours.setblocking(False)
        slot, pidfd = jail.slot(), -1
        try:
            with theirs:
                made = await jail.init.order(
                    "keeper", [theirs.fileno(), *(group.joins if group else [])],
                    slot=slot, may_set_groups=jail.plan.as_root, root=jail.plan.root, **disk_order(limits),
                )  # fmt: skip
                pidfd = made.pidfd()
            await readable(ours.fileno())
            received = wire.receive(ours, socket.MSG_CMSG_CLOEXEC)
            if received is None or received[0]["op"] != "ready" or len(received[1]) != (1 if jail.plan.root else 2):
                for descriptor in received[1] if received else ():
                    os.close(descriptor)
                said = received[0].get("error", "no room for its descriptors") if received else "it ended"
                raise StartFailed(f"the sandbox's walls could not be built: {said}")
        except BaseException:
            ours.close()
            await _end(pidfd)
            raise
        owner = jail.plan.ids[0] + slot if jail.plan.as_root else None
        workspace, *listeners = received[1]
        doorway = Doorway(listeners[0]) if listeners else None
        return cls(ours, pidfd, DescriptorWorkspace(workspace, owner), group, doorway)

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
        await self._show({"op": "packages"}, [] if layer is None else [await _off_loop(tree_of, layer)], "packages")
        self.layer = layer

    async def show_mounts(self, mounts: Mapping[str, str | PathLike[str]]) -> None:
        """Have folders of this machine in the sandbox; once, and before there is a kernel.

        Raises:
            StartFailed: when one cannot be shown.
        """
        with contextlib.ExitStack() as failed:
            trees = []
            for folder in mounts.values():
                trees.append(await _off_loop(tree_for, Path(folder), self.workspace.owner))
                failed.callback(os.close, trees[-1])
            failed.pop_all()
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
        if self.doorway is not None:
            self.doorway.close()
        pidfd, self.pidfd = self.pidfd, -1
        await _end(pidfd)
        self.workspace.close()

    async def _show(self, message: wire.Message, trees: list[int], what: str) -> None:
        showing: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._shows.append(showing)
        try:
            self._tell(message, trees)
        finally:
            for tree in trees:
                os.close(tree)
        if self._control is None:
            raise StartFailed(f"{what} cannot be shown to the sandbox: its keeper is gone")
        if failure := await showing:
            raise StartFailed(f"{what} cannot be shown to the sandbox: {failure}")

    def _tell(self, message: wire.Message, descriptors: list[int] | None = None) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):
                wire.send(self._control, message, descriptors)

    def _on_message(self) -> None:
        """All that it says later is that it killed or showed something, and its end."""
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

    def _let_go(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None
        while self._kills:
            self._confirm_kill()
        while self._shows:
            self._confirm_shown("its keeper is gone")

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


async def _end(pidfd: int) -> None:
    if pidfd >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        await gone(pidfd, KILL_TIMEOUT_S)
        os.close(pidfd)
