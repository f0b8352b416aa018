"""A live fork of a native sandbox, from the host's side: walls of its own first, then the process, checked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from typing import TYPE_CHECKING

from belljar.engines.base import Event, Spec, ignore
from belljar.engines.native.keeper import Keeper
from belljar.engines.native.link import JailedLink
from belljar.engines.native.process import NativeProcess
from belljar.engines.options import CannotFork
from belljar.errors import StartFailed
from belljar_jail.beneath import GENERATIONS, root_of
from belljar_jail.door import KINDS
from belljar_jail.keeper import READABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BENEATH = re.compile(rb"^(/\.beneath)+/root")  # where the root of a fork is mounted
TIMEOUT_S, ANSWER_S = 10.0, 2.0
FORK_BYTES = 4 << 20  # what a fork takes beside two copies of page tables
PLANTED = {"1", "2", "3"}
WANTED = {"NoNewPrivs": "1", "Seccomp": "2", "Threads": "1"} | dict.fromkeys(
    ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16
)


def check_possible(parent: NativeProcess) -> None:
    """Raise CannotFork where a live fork could not be kept apart from its parent."""
    if not parent.jail.plan.has_doors:
        raise CannotFork("a live fork needs user ids of its own, which only root can give, and an x86_64 processor")
    if {"seccomp", "landlock", "namespaces"} & {*parent.degraded} or parent.group is None:
        raise CannotFork("a wall is missing that a live fork relies on")
    if parent.keeper is None or not parent.keeper.alive or parent.doorkeeper is None or not parent.doorkeeper.alive:
        raise CannotFork("its keeper is gone")
    if parent.keeper.generation >= GENERATIONS:
        raise CannotFork(f"it is a fork of a fork, {GENERATIONS} times over")


async def fork(parent: NativeProcess, fork: NativeProcess, spec: Spec) -> list[str]:
    """Give `fork`, which has a control group and nothing else, the memory and the files of its parent; what was left.

    Raises:
        CannotFork, KernelExited, StartFailed: as Engine.fork() says; the fork is to be closed then.
    """
    doorkeeper = parent.doorkeeper
    assert doorkeeper is not None
    try:
        _check_room(parent)
        async with asyncio.timeout(TIMEOUT_S), doorkeeper.door:
            doorkeeper.expect()  # its memory is copied while its walls are made: it waits at the door until they are
            knocking = asyncio.ensure_future(parent.request({"type": "fork"}, ignore))
            try:
                return await _lead(parent, fork, spec, doorkeeper, knocking)
            except BaseException:
                doorkeeper.shut()
                await asyncio.wait((knocking,), timeout=ANSWER_S)  # or the next Request would get its answer
                knocking.cancel()
                await asyncio.gather(knocking, return_exceptions=True)
                raise
    except TimeoutError:
        raise StartFailed(f"the fork was not up after {TIMEOUT_S:.0f} s; the sandbox may be too busy") from None
    except OSError as failure:
        raise StartFailed(f"the fork could not be made: {failure}") from failure


def _check_room(parent: NativeProcess) -> None:
    """Until it is in its own control group, what a fork takes counts as its parent's, who must not be ended for it.

    Raises:
        StartFailed: when that is more than there is.
    """
    assert parent.group is not None
    assert parent.kernel is not None
    tables = int(_status(_pid_of(parent.kernel.pidfd)).get("VmPTE", "0 kB").split()[0]) << 10
    wanted, limit = 2 * tables + FORK_BYTES, parent.spec.limits.memory_mb
    if (used := parent.group.bound_bytes()) + wanted > limit << 20:
        raise StartFailed(
            f"the sandbox has no room for a fork: it uses {used >> 20} MB of its limit of {limit} MB, and while it is "
            f"forked {wanted >> 20} MB more. Close forks, delete data, or raise memory_mb"
        )


async def _lead(
    parent: NativeProcess, fork: NativeProcess, spec: Spec, doorkeeper: Keeper, knocking: asyncio.Future[Event]
) -> list[str]:
    assert parent.keeper is not None
    assert fork.group is not None
    fork.keeper, way_in = await parent.keeper.nest(fork.group, spec.limits, spec.policy.mounts)
    fork.parent = parent
    parent.forks.add(fork)
    fork.open_doorway()
    try:
        if spec.environment.layer is not None:
            await fork.keeper.show_packages(spec.environment.layer)
        return await _pass(parent, fork, doorkeeper, way_in, knocking)
    finally:
        for descriptor in way_in:
            os.close(descriptor)


async def _pass(
    parent: NativeProcess,
    fork: NativeProcess,
    doorkeeper: Keeper,
    way_in: Sequence[int],
    knocking: asyncio.Future[Event],
) -> list[str]:
    with contextlib.ExitStack() as theirs:
        kernel = fork.kernel = JailedLink.make(theirs)
        joins = fork.group.joins if fork.group else []
        entering = asyncio.ensure_future(_admission(parent, doorkeeper, way_in, kernel, joins))
        try:
            kernel.pidfd = await _entered(entering, knocking)
            theirs.close()
            _adopt(parent, fork, kernel, _settled(fork, kernel.pidfd, way_in))
            doorkeeper.release()
            left = _left(await knocking)
            if not await kernel.came_up():
                raise StartFailed("the fork ended before it could answer")
        except BaseException:
            doorkeeper.shut()
            entering.cancel()
            (entered,) = await asyncio.gather(entering, return_exceptions=True)
            if isinstance(entered, int):
                kernel.pidfd = entered  # to be closed with the rest
            raise
    fork.doorkeeper = doorkeeper
    return left


async def _admission(
    parent: NativeProcess, doorkeeper: Keeper, way_in: Sequence[int], kernel: JailedLink, joins: list[int]
) -> int:
    assert parent.keeper is not None
    place = os.stat(f"/proc/{_pid_of(parent.keeper.pidfd)}/ns/pid").st_ino
    return await doorkeeper.admit(root_of(parent.keeper.generation + 1), place, [*way_in], [*kernel.theirs, *joins])


async def _entered(entering: asyncio.Future[int], knocking: asyncio.Future[Event]) -> int:
    """The pidfd of the process behind the door."""
    await asyncio.wait((entering, knocking), return_when=asyncio.FIRST_COMPLETED)
    if not entering.done() and knocking.exception() is None:  # its answer may have overtaken the door
        await asyncio.wait((entering,), timeout=0.5)
    if not entering.done():
        raise knocking.exception() or StartFailed(f"the sandbox did not make the fork{_reason(knocking.result())}")
    return entering.result()


def _settled(fork: NativeProcess, pidfd: int, way_in: Sequence[int]) -> list[int]:
    """See from outside that the process is where it belongs and has no power; its pids, the outermost first."""
    assert fork.keeper is not None
    pid, group, own = _pid_of(pidfd), fork.group, fork.keeper.workspace.owner or 0
    for kind, descriptor in zip(KINDS, way_in, strict=False):
        if os.stat(f"/proc/{pid}/ns/{kind}").st_ino != os.fstat(descriptor).st_ino:
            raise StartFailed(f"the fork is not in the {kind} namespace that is its own")
    status = _status(pid)
    ids = {"Uid": f"{own}\t{own}\t{own + 1}\t{own}", "Gid": f"{own}\t{own}\t{own}\t{own}"}  # the door's is saved
    odd = [name for name, value in (WANTED | ids).items() if status.get(name) != value]
    if odd:
        raise StartFailed(f"the fork is not behind its walls: {', '.join(odd)}")
    if group is None or not group.has(pid):
        raise StartFailed("the fork is not in its control group")
    if {*os.listdir(f"/proc/{pid}/fd")} != PLANTED:
        raise StartFailed("the fork holds descriptors that are not its own")
    with open(f"/proc/{pid}/maps", "rb") as maps:
        if any(is_shared(row, fork.keeper.mounts) for row in maps):
            raise CannotFork("it holds memory that is shared between processes, and a fork would share it, too")
    return [int(number) for number in status["NSpid"].split()]


def _status(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def is_shared(row: bytes, mounted: Iterable[str] = ()) -> bool:
    """Whether a mapping ties a process to others: shared, and of anything but a file that it can only read.

    What may not be written now may be made writable again: the right to that is not seen here.
    """
    _, mode, *_ = words = row.rstrip(b"\n").split(None, 5)
    if mode[3:4] != b"s":
        return False
    path = _BENEATH.sub(b"", words[5]) if len(words) > 5 else b""
    only_read = tuple(f"{folder}/".encode() for folder in (*READABLE, *mounted))
    return mode[1:2] == b"w" or not path.startswith(only_read)


def _adopt(parent: NativeProcess, fork: NativeProcess, kernel: JailedLink, pids: list[int]) -> None:
    assert parent.keeper is not None
    assert fork.keeper is not None
    *_, pid_in_parent, kernel.pid_inside = pids
    fork.exit = parent.keeper.watch(pid_in_parent)
    fork.exit.add_done_callback(lambda _: kernel.end(None))
    fork.keeper.introduce(kernel.pid_inside, [])


def _reason(done: Event) -> str:
    error = done.get("error")
    return f": {str(error.get('value'))[:200]!r}" if isinstance(error, dict) else " that it was asked for"


def _left(done: Event) -> list[str]:
    """What the sandbox says that the fork does not have. It may say anything, about itself."""
    rows = done.get("left")
    return [row for row in rows[:20] if isinstance(row, str)] if isinstance(rows, list) else []


def _pid_of(pidfd: int) -> int:
    """The number of a process, as this process counts."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        found = [int(line.split()[1]) for line in file if line.startswith("Pid:")]
    if not found or found[0] <= 0:
        raise StartFailed("the process ended")
    return found[0]
