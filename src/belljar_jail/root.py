"""The outer root: an empty tmpfs filled step by step from a plan, all of it read-only, then pivoted into."""

from __future__ import annotations

import os

from belljar_jail import linux

Step = dict[str, object]

READ_ONLY = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
PROC_FLAGS = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
STAGE = "/tmp"  # any folder that exists everywhere; hidden by the tmpfs, gone after the pivot
EMPTY = f"{STAGE}/.empty"


def build(steps: list[Step]) -> None:
    """Make the plan's root and leave nothing of the old one."""
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in ("null", "zero", "full", "random", "urandom")}
    sources = {step["source"]: _held(step["source"]) for step in steps if "source" in step}
    lowers = {lower: _held(lower) for step in steps for lower in _list(step.get("lowers"))}
    linux.mount("root", STAGE, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=4m,mode=0755")
    for step in steps:
        _apply(step, sources, lowers)
    for name, descriptor in devices.items():
        _touch(f"{STAGE}/dev/{name}")
        linux.mount(f"/proc/self/fd/{descriptor}", f"{STAGE}/dev/{name}", None, linux.MS_BIND)
        os.close(descriptor)
    for descriptor in (*sources.values(), *lowers.values()):
        os.close(descriptor)
    os.makedirs(f"{STAGE}/proc", exist_ok=True)
    linux.mount("proc", f"{STAGE}/proc", "proc", PROC_FLAGS)
    os.makedirs(f"{STAGE}/.old")
    os.chdir(STAGE)
    linux.pivot_root(".", ".old")
    os.chdir("/")
    linux.umount("/.old")
    os.rmdir("/.old")
    linux.mount(None, "/", None, linux.MS_BIND | linux.MS_REMOUNT | READ_ONLY)


def _apply(step: Step, sources: dict[object, int], lowers: dict[str, int]) -> None:
    at = f"{STAGE}{step['at']}"
    kind = step["kind"]
    if kind == "folder":
        os.makedirs(at, exist_ok=True)
    elif kind == "link":
        os.makedirs(os.path.dirname(at), exist_ok=True)
        os.symlink(str(step["to"]), at)
    elif kind == "file":
        os.makedirs(os.path.dirname(at), exist_ok=True)
        with open(at, "w", encoding="utf-8") as file:
            file.write(str(step["text"]))
    elif kind == "tmpfs":
        os.makedirs(at, exist_ok=True)
        linux.mount("tmpfs", at, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"size={step['size']},mode=1777")
    elif kind == "hidden":
        linux.mount("tmpfs", at, "tmpfs", READ_ONLY, "size=4k,mode=0755")
    elif kind == "bind":
        _bind(sources[step["source"]], at)
    elif kind == "overlay":
        _overlay([lowers[lower] for lower in _list(step["lowers"])], at)


def _bind(source: int, at: str) -> None:
    path = f"/proc/self/fd/{source}"
    if os.path.isdir(path):
        os.makedirs(at, exist_ok=True)
    else:
        _touch(at)
    linux.mount(path, at, None, linux.MS_BIND | linux.MS_REC)
    linux.mount(None, at, None, linux.MS_BIND | linux.MS_REMOUNT | READ_ONLY)


def _overlay(sources: list[int], at: str) -> None:
    """Show folders merged and read-only, without their host names in the mount table."""
    os.makedirs(at, exist_ok=True)
    os.makedirs(EMPTY, exist_ok=True)  # an overlay wants two folders at least; it must stay, or the merge looks empty
    names = [f"{STAGE}/.lower{index}" for index in range(len(sources))]
    for name, source in zip(names, sources, strict=True):
        os.mkdir(name)
        linux.mount(f"/proc/self/fd/{source}", name, None, linux.MS_BIND)
    linux.mount("belljar", at, "overlay", READ_ONLY, f"lowerdir={':'.join([*names, EMPTY])}")
    for name in names:
        linux.umount(name)
        os.rmdir(name)


def _held(path: object) -> int:
    """Hold a folder or file open before the tmpfs may hide it."""
    return os.open(str(path), os.O_PATH | os.O_CLOEXEC)


def _touch(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
