"""Which folders of this machine may be shown to a sandbox, and where in it. Both are checked before anything starts."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from belljar.errors import InvalidRequest
from belljar.settings import Settings

MOST = 16
LONGEST_PLACE, LONGEST_NAME = 1024, 255
# What every sandbox has at its root already, on one engine or another.
TAKEN = frozenset({
    "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "opt", "packages", "proc", "sbin", "sys", "tmp", "usr",
    "workspace",
})  # fmt: skip
SYSTEM = ("/proc", "/sys", "/dev")
NO_FILES = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs",
    "tracefs",
})  # fmt: skip


def checked_mounts(mounts: Mapping[str, str | PathLike[str]], settings: Settings) -> dict[str, str]:
    """The mounts of a policy by place, each with the folder's own path: absolute, and without links.

    Raises:
        InvalidRequest: for the first that cannot be.
    """
    if len(mounts) > MOST:
        raise InvalidRequest(
            f"a sandbox has at most {MOST} mounts, not {len(mounts)}; mount a folder that has them all"
        )
    checked = {check_place(place): str(check_folder(os.fspath(folder), settings)) for place, folder in mounts.items()}
    if len(checked) < len(mounts):
        raise InvalidRequest("two mounts name the same place; leave one of them out")
    for place in checked:
        for other in checked:
            if place.startswith(f"{other}/"):
                raise InvalidRequest(f"the mount {place!r} lies within the mount {other!r}; give it a place beside it")
    return checked


def check_place(place: str) -> str:
    """A path inside at which nothing of a sandbox's own can be."""
    parts = place.split("/")[1:]
    if parts and not parts[-1]:
        parts.pop()
    if not place.startswith("/") or not parts or any(part in ("", ".", "..") for part in parts):
        raise InvalidRequest(f"{place!r} is no place for a mount; give a full path inside, like '/data'")
    if not place.isprintable() or len(place) > LONGEST_PLACE or max(len(p.encode()) for p in parts) > LONGEST_NAME:
        raise InvalidRequest(f"the place {place[:80]!r} of a mount is too long, or has characters that nobody can read")
    if parts[0] in TAKEN or parts[0].startswith("."):
        raise InvalidRequest(
            f"/{parts[0]} is the sandbox's own; mount the folder elsewhere, like '/data' or '/mnt/name'"
        )
    return "/" + "/".join(parts)


def check_folder(folder: str, settings: Settings) -> Path:
    """A folder of this machine that holds nothing which no sandbox may see."""
    if not folder or "\0" in folder:
        raise InvalidRequest(f"{folder!r} names no folder to mount")
    path = Path(os.path.realpath(Path(folder).expanduser()))
    try:
        facts = path.stat()
    except OSError as failure:
        raise InvalidRequest(f"{folder!r} cannot be mounted: {failure.strerror or failure}") from None
    if not stat.S_ISDIR(facts.st_mode):
        raise InvalidRequest(f"{folder!r} cannot be mounted: it is not a folder; mount the folder that it lies in")
    if path == Path(path.anchor):
        raise InvalidRequest("the whole machine cannot be mounted; name the folder that the code needs")
    if _is_of_the_system(path, facts):
        raise InvalidRequest(f"{folder!r} cannot be mounted: it shows the machine itself, not files")
    for own in (settings.state_dir, settings.cache_dir):
        place = Path(os.path.realpath(own))
        if path == place or path in place.parents or place in path.parents:
            raise InvalidRequest(
                f"{folder!r} cannot be mounted: Belljar keeps its own files at {own}; mount a folder apart from that"
            )
    return path


def _is_of_the_system(path: Path, facts: os.stat_result) -> bool:
    """Whether it lies in /proc and the like, also where those are mounted elsewhere."""
    if any(path == Path(system) or Path(system) in path.parents for system in SYSTEM):
        return True
    device = f"{os.major(facts.st_dev)}:{os.minor(facts.st_dev)}"
    return _file_systems().get(device) in NO_FILES


def _file_systems() -> dict[str, str]:
    """The kind of every file system that is mounted, by device; empty where that cannot be known."""
    try:
        rows = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()]
    except OSError:
        return {}
    return {row[2]: row[row.index("-") + 1] for row in rows}
