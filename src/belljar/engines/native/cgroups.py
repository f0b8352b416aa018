"""Limits by control groups, v2 or v1, whichever this machine lets us write. Made here; processes join by descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from belljar.limits import Limits

CONTROLLERS_V1 = ("memory", "pids", "cpu", "cpuacct")
CONTROLLERS_V2 = ("memory", "pids", "cpu")
PERIOD_US = 100_000
FRESH = {"cpu.cfs_period_us": "100000", "cpu.cfs_burst_us": "0", "cpu.max.burst": "0"}  # what a new group has
OPTIONAL = ("swap.max", "memsw.limit_in_bytes", "burst", "burst_us")  # not every kernel counts swap, or saves time
PREFIX = "belljar-"
NONE_WRITABLE = "no writable control group with memory, pids and cpu"


class NoCgroups(Exception):
    """This process may not make control groups; says why and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


@dataclass(frozen=True)
class Hierarchy:
    """Where groups are made: one folder for v2, one per controller for v1."""

    version: int
    parents: dict[str, Path]

    def make(self, name: str, limits: Limits) -> Group:
        """A group with its limits set and nothing in it yet."""
        folders = {controller: parent / name for controller, parent in self.parents.items()}
        group = Group(self.version, folders)
        try:
            for folder in dict.fromkeys(folders.values()):
                folder.mkdir()
            group.set(limits)
            group.open()
        except OSError:
            group.remove()
            raise
        return group

    def sweep(self) -> None:
        """Take away what hosts left that are no more; one may have lived in a group beside ours."""
        for parent in dict.fromkeys(self.parents.values()):
            for place in {parent.parent, *parent.parent.parent.glob("*/")}:
                _sweep(place)

    def remove(self) -> bool:
        """Take away what find() made, with all groups in it; False while processes are still leaving one."""
        folders = [*dict.fromkeys(self.parents.values())]
        groups = [folder for parent in folders for folder in (*parent.glob("*/"), parent)]
        return not [folder for folder in groups if not _is_removed(folder)]

    async def vanish(self) -> None:
        """remove() as soon as the last process has left."""
        await _until(self.remove)


@dataclass
class Group:
    """One sandbox's control group."""

    version: int
    folders: dict[str, Path]
    joins: list[int] = field(default_factory=list)
    _written: dict[str, str] = field(default_factory=lambda: dict(FRESH))
    _cpu: int = -1
    _peak: int = -1
    _kills: int = -1

    def open(self) -> None:
        """Open what is needed often: the files to join by, and those that tell the usage."""
        # A process of one thread joins itself: for `tasks` the kernel then needs no lock, and no grace period of
        # 10-20 ms before it, as it does for `cgroup.procs`. On v2 there is no such file.
        join = "cgroup.procs" if self.version == 2 else "tasks"
        for folder in dict.fromkeys(self.folders.values()):
            self.joins.append(os.open(folder / join, os.O_WRONLY | os.O_CLOEXEC))
        cpu = "cpu.stat" if self.version == 2 else "cpuacct.usage"
        peak = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        self._cpu = os.open(self.folders["cpu" if self.version == 2 else "cpuacct"] / cpu, os.O_RDONLY | os.O_CLOEXEC)
        kills = "memory.events" if self.version == 2 else "memory.oom_control"
        self._kills = os.open(self.folders["memory"] / kills, os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(FileNotFoundError):  # memory.peak came with Linux 5.19
            self._peak = os.open(self.folders["memory"] / peak, os.O_RDONLY | os.O_CLOEXEC)

    def set(self, limits: Limits) -> None:
        """Write the limits; the keeper is one process on top of the sandbox's own."""
        for controller, name, value in settings(self.version, limits):
            path = self.folders[controller] / name
            if self._written.get(name) == value or (name.endswith(OPTIONAL) and not path.exists()):
                continue
            path.write_text(value)
            self._written[name] = value

    def has(self, pid: int) -> bool:
        """Whether a process is in the group."""
        folders = dict.fromkeys(self.folders.values())
        return all(str(pid) in (folder / "cgroup.procs").read_text().split() for folder in folders)

    def cpu_s(self) -> float:
        """Processor time of everything that was ever in the group."""
        text = os.pread(self._cpu, 4096, 0)
        return int(text.split()[1]) / 1e6 if self.version == 2 else int(text) / 1e9

    def peak_bytes(self) -> int:
        """The most memory that the group had."""
        return int(os.pread(self._peak, 64, 0)) if self._peak >= 0 else 0

    def bytes_now(self) -> int:
        """The memory that the group has; asked for too rarely to keep the file open."""
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        try:
            return int((self.folders["memory"] / name).read_text())
        except OSError:
            return 0

    def bound_bytes(self) -> int:
        """The same without what the kernel keeps of files only to read them faster, and gives up when asked to."""
        try:
            rows = dict(row.split() for row in (self.folders["memory"] / "memory.stat").read_text().splitlines())
        except OSError:
            rows = {}
        return self.bytes_now() - sum(int(rows.get(name, 0)) for name in ("inactive_file", "active_file"))

    def out_of_memory_kills(self) -> int:
        """How many processes the kernel ended here for want of memory."""
        words = os.pread(self._kills, 4096, 0).split() if self._kills >= 0 else []
        return int(words[words.index(b"oom_kill") + 1]) if b"oom_kill" in words else 0

    def remove(self) -> bool:
        """Close and take it away; False while processes are still leaving it."""
        for descriptor in (*self.joins, self._cpu, self._peak, self._kills):
            if descriptor >= 0:
                os.close(descriptor)
        self.joins, self._cpu, self._peak, self._kills = [], -1, -1, -1
        return all(_is_removed(folder) for folder in dict.fromkeys(self.folders.values()))

    async def vanish(self) -> None:
        """remove() as soon as the last process has left."""
        await _until(self.remove)


def _is_removed(folder: Path) -> bool:
    """Remove a group. False while it has processes or groups in it."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


async def _until(act: Callable[[], bool]) -> None:
    for _ in range(200):
        if act():
            break
        await asyncio.sleep(0.01)


def settings(version: int, limits: Limits) -> list[tuple[str, str, str]]:
    """(controller, file, value) for each limit, in the order in which they must be written.

    What a sandbox has left of one period it may use in the next: its first threads would else wait for half of it.
    """
    memory = str(limits.memory_mb << 20)
    quota = int(limits.cpus * PERIOD_US)
    pids = str(limits.processes + 1)
    if version == 2:
        return [
            ("memory", "memory.max", memory),
            ("memory", "memory.swap.max", "0"),
            ("pids", "pids.max", pids),
            ("cpu", "cpu.max.burst", "0"),
            ("cpu", "cpu.max", f"{quota} {PERIOD_US}"),
            ("cpu", "cpu.max.burst", str(quota)),
        ]
    return [
        ("memory", "memory.memsw.limit_in_bytes", "-1"),  # out of the way: it may never be below the next
        ("memory", "memory.limit_in_bytes", memory),
        ("memory", "memory.memsw.limit_in_bytes", memory),
        ("pids", "pids.max", pids),
        ("cpu", "cpu.cfs_burst_us", "0"),  # out of the way: it may never be over the quota
        ("cpu", "cpu.cfs_period_us", str(PERIOD_US)),
        ("cpu", "cpu.cfs_quota_us", str(quota)),
        ("cpu", "cpu.cfs_burst_us", str(quota)),
    ]


def find(name: str, process: int | str = "self", system: Path = Path("/")) -> Hierarchy:
    """Make a parent group called `name` beneath the group of `process`, and prove that limits can be set in it.

    Raises:
        NoCgroups: when there is no place to write to.
    """
    mounts = _mounts(system)
    own = _own_groups(system, process)
    if "v2" in mounts and own.get("") != _own_groups(system, "self").get(""):
        _make_room(mounts["v2"] / own[""].lstrip("/"))  # a scope that was made for this process: nobody else's
    hierarchy = _try_v2(name, mounts, own) or _try_v1(name, mounts, own)
    if hierarchy is None:
        raise NoCgroups(NONE_WRITABLE, _fix())
    hierarchy.sweep()
    return hierarchy


def fresh_name() -> str:
    """A name for the parent group of one engine of this process.

    It has pid and start time, so that a reused pid is not mistaken for it, and no other engine has it.
    """
    return f"{PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{secrets.token_hex(4)}"


def _sweep(folder: Path) -> None:
    """Take away what processes left that are no more."""
    for left in folder.glob(f"{PREFIX}*-*"):
        pid, started, *_ = left.name.removeprefix(PREFIX).split("-")
        if pid.isdecimal() and started.isdecimal() and _start_time(int(pid)) != int(started):
            for group in (*left.glob("*/"), left):
                with contextlib.suppress(OSError):
                    group.rmdir()


def _start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def _try_v2(name: str, mounts: dict[str, Path], own: dict[str, str]) -> Hierarchy | None:
    if "v2" not in mounts or "" not in own:
        return None
    base = mounts["v2"]
    here = base / own[""].lstrip("/")
    for parent in dict.fromkeys((here, here.parent if here != base else here, base)):
        try:
            _delegate(parent)
            folder = parent / name
            folder.mkdir(exist_ok=True)
            _delegate(folder)
        except OSError:
            continue
        return Hierarchy(2, dict.fromkeys(CONTROLLERS_V2, folder))
    return None


def _make_room(scope: Path) -> None:
    """Move a scope's processes into a group beneath it: one that has processes cannot hand controllers down."""
    with contextlib.suppress(OSError):
        leaf = scope / "jail"
        leaf.mkdir(exist_ok=True)
        for pid in (scope / "cgroup.procs").read_text().split():
            (leaf / "cgroup.procs").write_text(pid)


def _delegate(folder: Path) -> None:
    """Hand the controllers down to children of this group, unless that is done.

    Raises:
        OSError: when it is not ours to do, or processes live in the group itself.
    """
    enabled = set((folder / "cgroup.subtree_control").read_text().split())
    missing = [controller for controller in CONTROLLERS_V2 if controller not in enabled]
    if missing:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in missing))


def _try_v1(name: str, mounts: dict[str, Path], own: dict[str, str]) -> Hierarchy | None:
    if any(controller not in mounts or controller not in own for controller in CONTROLLERS_V1):
        return None
    parents = {c: mounts[c] / own[c].lstrip("/") / name for c in CONTROLLERS_V1}
    made: list[Path] = []
    try:
        for parent in dict.fromkeys(parents.values()):
            parent.mkdir(exist_ok=True)
            made.append(parent)
    except OSError:
        for parent in made:
            parent.rmdir()
        return None
    return Hierarchy(1, parents)


def _mounts(system: Path) -> dict[str, Path]:
    """Mount point by v1 controller, and of v2 under the name `v2`."""
    found: dict[str, Path] = {}
    for line in (system / "proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        point = system / before.split()[4].lstrip("/")
        if kind == "cgroup2":
            found.setdefault("v2", point)
        elif kind == "cgroup":
            for controller in options.split(" ")[-1].split(","):
                found.setdefault(controller, point)
    return found


def _own_groups(system: Path, process: int | str) -> dict[str, str]:
    """Group path by v1 controller, and of v2 under the empty name."""
    found: dict[str, str] = {}
    for line in (system / f"proc/{process}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _fix() -> str:
    if os.getuid() == 0:
        return "mount the control groups writable (in a container: --cgroupns=private and a writable /sys/fs/cgroup)"
    return (
        "run inside a delegated scope: `systemd-run --user --scope -p Delegate=yes -- COMMAND`, "
        "or ask root to delegate a control group with memory, pids and cpu to this user"
    )
