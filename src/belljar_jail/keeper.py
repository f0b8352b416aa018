"""The keeper: process 1 of one sandbox. It holds the namespaces and the workspace, reaps, and never runs user code."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import select
import signal
import socket
import struct
import time

from belljar_jail import linux, mounts, packages, program_root, wire
from belljar_jail.overlay import SPARE
from belljar_jail.root import PROC_FLAGS

NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
USER = 1000
DOORWAY, BACKLOG = ("127.0.0.1", 3128), 256
FOLDERS = {"workspace": "/workspace", "tmp": "/tmp", "home": "/home/sandbox", "shm": "/dev/shm"}
MASKED = (
    "kcore", "keys", "key-users", "kallsyms", "timer_list", "sched_debug", "sysrq-trigger", "cmdline", "config.gz",
    "modules", "partitions", "diskstats", "swaps", "vmallocinfo", "slabinfo", "iomem", "ioports", "interrupts",
    "kpagecount", "kpageflags", "kpagecgroup", "kmsg", "locks", "buddyinfo", "pagetypeinfo", "zoneinfo",
)  # fmt: skip
NOTIFY_RECEIVE, NOTIFY_SEND = 0xC0502100, 0xC0182101


def keep(control: socket.socket, go: socket.socket, order: wire.Message, cgroups: list[int]) -> None:
    """Build the sandbox's own walls, say so, and look after it until the host lets go."""
    try:
        if not go.recv(1):
            return
        workspace = _build(order, cgroups)
    except OSError as failure:
        wire.send(control, {"op": "failed", "error": str(failure)})
        return
    handed = [workspace] if order.get("root") else [workspace, _doorway()]
    _forget_descriptors(keep={control.fileno(), *handed})
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    wire.send(control, {"op": "ready"}, handed)
    for descriptor in handed:
        os.close(descriptor)
    _serve(control)


def _build(order: wire.Message, cgroups: list[int]) -> int:
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
    _show_memory(order)
    linux.umount(SPARE)
    return os.open("/workspace", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _doorway() -> int:
    """A listener in this network, for the host to answer. It is taken before there is any code that could take it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(DOORWAY)
        listener.listen(BACKLOG)
        return listener.detach()


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


def _serve(control: socket.socket) -> None:
    """Answer the host until it closes its end; the pid namespace, and all that lives in it, ends with this process."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    listener, kernel = -1, -1
    while True:
        for descriptor, event in poll.poll():
            if descriptor == wake_read:
                os.read(wake_read, 4096)
                _reap()
            elif descriptor == listener:
                if event & select.POLLIN:
                    _refuse(listener)
                else:  # every process under this filter is gone
                    poll.unregister(listener)
                    os.close(listener)
                    listener = -1
            elif descriptor == control.fileno():
                received = wire.receive(control)
                if received is None:
                    return
                message, descriptors = received
                if message["op"] == "kernel":
                    if listener >= 0:
                        poll.unregister(listener)
                        os.close(listener)
                    listener, kernel = (descriptors or [-1])[0], int(message["pid"])
                    if listener >= 0:
                        poll.register(listener, select.POLLIN)
                elif message["op"] == "kill":
                    _kill(kernel if message.get("spare") else None)
                    wire.send(control, {"op": "killed"})
                elif message["op"] == "packages":
                    wire.send(control, {"op": "shown", "error": packages.show(descriptors)})
                elif message["op"] == "mounts":
                    wire.send(control, {"op": "shown", "error": mounts.show(message["at"], descriptors)})
                elif message["op"] == "refresh":
                    wire.send(control, {"op": "shown", "error": mounts.refresh(message["at"])})


def _kill(spared: int | None) -> None:
    """End everything in the sandbox but this process and, when named, the kernel."""
    if spared is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        return
    for _ in range(100):  # the dying take a moment, and a fork bomb may outrun a few rounds
        others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, spared)]
        others = [pid for pid in others if not _is_zombie(pid)]
        if not others:
            return
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.002)
    _kill(None)


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _refuse(listener: int) -> None:
    """Answer one `unshare` with EPERM, in no hurry: a flood of them must not keep this process busy."""
    time.sleep(0.001)
    notification = bytearray(80)
    try:
        fcntl.ioctl(listener, NOTIFY_RECEIVE, notification)
        identifier = struct.unpack_from("Q", notification)[0]
        fcntl.ioctl(listener, NOTIFY_SEND, bytearray(struct.pack("QqiI", identifier, 0, -errno.EPERM, 0)))
    except OSError as failure:
        if failure.errno not in (errno.ENOENT, errno.EINTR):  # the caller died meanwhile
            raise
