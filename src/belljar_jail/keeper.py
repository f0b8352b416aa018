"""The keeper: process 1 of one sandbox. It holds the namespaces and the workspace, reaps, and never runs user code."""

from __future__ import annotations

import functools
import os
import socket

from belljar_jail import beneath, copying, landlock, linux, mounts, program_root, wire
from belljar_jail.door import KINDS
from belljar_jail.ids import USER
from belljar_jail.overlay import SPARE
from belljar_jail.root import PROC_FLAGS
from belljar_jail.service import FOLDERS, Service
from belljar_kernel.protocol import WORKSPACE

BACKLOG = 256
READABLE = ["/usr", "/lib", "/lib64", "/bin", "/opt", "/etc", "/proc", "/packages"]
WRITABLE = list(FOLDERS.values())
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
MASKED = (
    "kcore", "keys", "key-users", "kallsyms", "timer_list", "sched_debug", "sysrq-trigger", "cmdline", "config.gz",
    "modules", "partitions", "diskstats", "swaps", "vmallocinfo", "slabinfo", "iomem", "ioports", "interrupts",
    "kpagecount", "kpageflags", "kpagecgroup", "kmsg", "locks", "buddyinfo", "pagetypeinfo", "zoneinfo",
)  # fmt: skip


def keep(
    control: socket.socket, go: socket.socket, order: wire.Message, cgroups: list[int], files: dict[str, int],
    trees: list[int],
) -> None:  # fmt: skip
    """Build the sandbox's own walls, say so, and look after it until the host lets go.

    `files` are the folders of the sandbox that this is a live fork of, `trees` what is mounted in both.
    """
    origin = -1
    try:
        if not go.recv(1):
            return
        if order["has_door"]:
            origin = _keep_origin()
        workspace = _build(order, cgroups, files, trees)
    except OSError as failure:
        wire.send(control, {"op": "failed", "error": str(failure)})
        return
    handed = [workspace] if order.get("root") else [workspace, _doorway()]
    _forget_descriptors(keep={control.fileno(), origin, *handed} - {-1})
    way_in = _way_in(order) if files else []
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    wire.send(control, {"op": "ready"}, handed)
    if files:
        wire.send(control, {"op": "way_in"}, way_in)
    for descriptor in (*handed, *way_in):
        os.close(descriptor)
    roots = ["", beneath.root_of(order["generation"])] if files else [""]
    Service(control, origin, roots, keep).serve()


def _keep_origin() -> int:
    """Go on in a copy of these mounts. For a fork's own /proc, Linux wants to see one that nothing is masked in."""
    origin = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    linux.unshare(linux.CLONE_NEWNS)
    return origin


def _build(order: wire.Message, cgroups: list[int], files: dict[str, int], trees: list[int]) -> int:
    for descriptor in cgroups:
        os.write(descriptor, b"0")
    linux.unshare(linux.CLONE_NEWCGROUP)
    linux.prctl(linux.PR_SET_KEEPCAPS, 1)
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    linux.raise_capabilities()
    os.umask(0o022)
    socket.sethostname("sandbox")
    linux.bring_loopback_up()
    if order.get("root"):
        return program_root.enter(order["root"])
    linux.mount("proc", "/proc", "proc", PROC_FLAGS)
    for path in masked():
        linux.mount("/dev/null", path, None, linux.MS_BIND)
    linux.mount(
        "disk", SPARE, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode=0755,uid={USER},gid={USER},{_size(order)}"
    )
    for name, target in FOLDERS.items():
        os.mkdir(f"{SPARE}/{name}", 0o1777 if name in ("tmp", "shm") else 0o755)
        linux.mount(f"{SPARE}/{name}", target, None, linux.MS_BIND)
        if name in files:
            _copy(files[name], f"{SPARE}/{name}")
    _show_memory(order)
    linux.umount(SPARE)
    if files:
        _furnish_fork(order, trees)
    return os.open(WORKSPACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _furnish_fork(order: wire.Message, trees: list[int]) -> None:
    """What a sandbox gets later on, if ever, a live fork has from the beginning: it is a kernel that lives already."""
    if trees and (failure := mounts.show(order["mounts"], trees)) is not None:
        raise OSError(failure)
    linux.mount("/", beneath.root_of(order["generation"]), None, linux.MS_BIND | linux.MS_REC)


def _doorway() -> int:
    """A listener in this network, for the host to answer. It is taken before there is any code that could take it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(wire.DOORWAY)
        listener.listen(BACKLOG)
        return listener.detach()


def _way_in(order: wire.Message) -> list[int]:
    """What a live fork needs to come here: our namespaces, and rules for Landlock that are about our files."""
    namespaces = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in KINDS]
    return [*namespaces, rules(order["generation"], order["mounts"])]


def rules(generation: int, mounted: list[str]) -> int:
    """Landlock's rules for a kernel."""
    return landlock.ruleset([*READABLE, *mounted], [*WRITABLE, beneath.folder_for_forks(generation)], DEVICES)


@functools.cache
def masked() -> list[str]:
    """What this kernel has in /proc that a sandbox must not read; looked up once."""
    return [f"/proc/{name}" for name in MASKED if os.path.exists(f"/proc/{name}")]


def _show_memory(order: wire.Message) -> None:
    """Let programs that ask how much memory there is see the sandbox's limit."""
    total = int(order["memory_kb"])
    rows = {"MemTotal": total, "MemFree": total, "MemAvailable": total}
    rows |= dict.fromkeys(("Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree"), 0)
    file = os.open(f"{SPARE}/meminfo", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.write(file, "".join([f"{name}:{value:>16} kB\n" for name, value in rows.items()]).encode())
    os.close(file)
    linux.mount(f"{SPARE}/meminfo", "/proc/meminfo", None, linux.MS_BIND)
    linux.mount(None, "/proc/meminfo", None, linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY)


def _size(order: wire.Message) -> str:
    return f"size={int(order['disk_bytes'])},nr_inodes={int(order['inodes'])}"


def _forget_descriptors(keep: set[int]) -> None:
    """Close all others; there may be no /proc that would list them."""
    kept = sorted(keep)
    for low, high in zip([-1, *kept], [*kept, 1 << 20], strict=True):
        os.closerange(low + 1, high)


def _copy(source: int, target: str) -> None:
    """The files of the sandbox that was forked."""
    folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        copying.copy(source, folder)
        os.fchmod(folder, os.stat(source).st_mode & 0o7777 | 0o700)
    finally:
        os.close(folder)
