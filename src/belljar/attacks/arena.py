"""Where attacks are made: a host of its own, canaries, a bystander, and what this process has on the machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from belljar import Sandbox, compose
from belljar.attacks.canaries import Canaries
from belljar.attacks.runtime import RuntimeFiles
from belljar.limits import Limits
from belljar.policy import Policy
from belljar.settings import Settings

SETTLE_S = 8.0
CGROUPS = "/sys/fs/cgroup"
CALM = Limits(timeout_s=20, memory_mb=64, processes=8, disk_mb=2)


@dataclass(frozen=True)
class Possessions:
    """What this process has: its descendants, descriptors, control groups and mounts."""

    processes: frozenset[str]
    descriptors: frozenset[str]
    groups: frozenset[str]
    mounts: frozenset[str]

    def beyond(self, before: Possessions) -> list[str]:
        """What there is now and was not before."""
        return [
            f"left behind, {kind}: {', '.join(sorted(more)[:5])}"
            for kind, more in (
                ("processes", self.processes - before.processes),
                ("descriptors", self.descriptors - before.descriptors),
                ("control groups", self.groups - before.groups),
                ("mounts", self.mounts - before.mounts),
            )
            if more
        ]


@dataclass(frozen=True)
class Process:
    """A descendant of this process; `depth` counts the pid namespaces that it is in."""

    pid: int
    parent: int
    depth: int
    state: str
    name: str


class Arena:
    """A host without a pool or a reserve, so that what is left after an attack is left by the attack."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.canaries = Canaries()
        self.here = compose.LocalHost(replace(Settings.load(), pool_size=0, reserve_size=0))
        try:
            self.bystander = self.sandbox(CALM)
            self.bystander.run("1 + 1")
            self.bystander.files.write("secret.txt", self.canaries.secret)
            self.sandbox(CALM).close()  # whatever is made once and kept has been made now
            self._group_parents = list(_own_groups())
            self.before = self.possessions()
            self.runtime = RuntimeFiles(self.bystander.engine)
        except BaseException:
            self.close()
            raise

    def sandbox(self, limits: Limits) -> Sandbox:
        """A sandbox of this arena's own host."""
        with compose.pinned(self.here):
            return Sandbox(self.engine, limits=limits, policy=Policy(packages="none"))

    def possessions(self) -> Possessions:
        """What this process has on the machine now."""
        return Possessions(
            frozenset(f"{process.pid}{' (not reaped)' * (process.state == 'Z')}" for process in descendants()),
            frozenset(_descriptors()),
            frozenset(group for parent in self._group_parents for group in _folders(parent)),
            frozenset(Path("/proc/self/mountinfo").read_text().splitlines()),
        )

    def leftovers(self) -> list[str]:
        """What attacks left behind, once there was time for it to go."""
        deadline = time.monotonic() + SETTLE_S
        while (left := self.possessions().beyond(self.before)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def close(self) -> None:
        """End the host and take the canaries away."""
        self.here.close()
        self.canaries.close()


def descendants() -> list[Process]:
    """Every process that this one started, directly or not; those that have ended but were not reaped as well."""
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, KeyError):
                rows = dict(
                    line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line
                )
                depth = len(rows["NSpid"].split())
                process = Process(int(entry.name), int(rows["PPid"]), depth, rows["State"][0], rows["Name"])
                children.setdefault(process.parent, []).append(process)
    found, pending = [], [os.getpid()]
    while pending:
        mine = children.get(pending.pop(), [])
        found += mine
        pending += [process.pid for process in mine]
    return found


def _own_groups() -> Iterator[str]:
    """The control groups that this process made for its sandboxes, one for each controller with version 1."""
    for folder, names, _ in os.walk(CGROUPS):
        yield from (f"{folder}/{name}" for name in names if name.startswith(f"belljar-{os.getpid()}-"))
        names[:] = [name for name in names if not name.startswith("belljar-")]


def _folders(parent: str) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        yield from (f"{parent}/{name}" for name in os.listdir(parent) if os.path.isdir(f"{parent}/{name}"))


def _descriptors() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if not target.startswith("/proc/"):  # the listing itself
                yield target
