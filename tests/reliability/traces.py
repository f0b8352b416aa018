"""What a host leaves on a machine: processes, control groups, mounts, descriptors, threads. Only looks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

JAIL = b"belljar_jail"
CGROUPS = Path("/sys/fs/cgroup")
JAIL_MOUNTS = ("belljar", "root", "disk")  # the names of what a jail mounts, in namespaces of its own


@dataclass(frozen=True)
class Process:
    """One process, told apart from a later one with the same pid by its start time."""

    pid: int
    parent: int
    state: str
    started: int


@dataclass(frozen=True)
class Traces:
    """Counts that must not grow."""

    descriptors: int
    threads: int
    processes: int
    groups: int
    mounts: int

    def is_within(self, before: Traces) -> bool:
        """Whether there is no more of anything; what was just being closed then may be gone now."""
        return all(now <= then for now, then in zip(astuple(self), astuple(before), strict=True))


def traces() -> Traces:
    """What this process holds now."""
    return Traces(
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count(),
        processes=len(descendants(os.getpid())),
        groups=len(own_groups(os.getpid())),
        mounts=len(jail_mounts()),
    )


def processes() -> dict[int, Process]:
    """Every process of this machine."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(name)] = Process(int(name), int(fields[1]), fields[0], int(fields[19]))
    return found


def descendants(ancestor: int) -> list[Process]:
    """Everything that a process started, itself or through others."""
    everyone = processes()
    found: list[Process] = []
    level = {ancestor}
    while level:
        children = [process for process in everyone.values() if process.parent in level]
        found += children
        level = {process.pid for process in children}
    return found


def jailed(ancestor: int) -> list[Process]:
    """The live processes among them that are a part of a jail."""
    found = []
    for process in descendants(ancestor):
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if JAIL in words:
            found.append(process)
    return found


def alive(process: Process) -> bool:
    """Whether that very process still runs; a zombie does not."""
    now = processes().get(process.pid)
    return now is not None and now.started == process.started and now.state not in "ZX"


def groups() -> list[Path]:
    """Every control group of a host, or below one."""
    return [
        Path(folder) / name for folder, names, _ in os.walk(CGROUPS) for name in names if "belljar-" in folder + name
    ]


def own_groups(pid: int) -> list[Path]:
    """The control groups of the host in that process."""
    return [path for path in groups() if f"/belljar-{pid}-" in f"{path}/"]


def jail_mounts() -> list[str]:
    """Mounts of a jail that leaked into this namespace."""
    rows = Path("/proc/self/mountinfo").read_text().splitlines()
    return [row for row in rows if row.partition(" - ")[2].split()[1] in JAIL_MOUNTS]


def eventually(condition: Callable[[], bool], seconds: float = 5) -> bool:
    """Whether it comes true within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
