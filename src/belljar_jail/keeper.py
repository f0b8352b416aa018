"""The keeper: process 1 of one sandbox. It holds the namespaces and the workspace, reaps, and never runs user code."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import signal
import socket
import time
from collections.abc import Iterable

from belljar_jail import beneath, copying, landlock, linux, packages, program_root, wire
from belljar_jail.door import KINDS, Door, Notification, Refused, refuse
from belljar_jail.ids import DOOR, USER
from belljar_jail.root import PROC_FLAGS
from belljar_jail.tracing import Tracee

NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
DISK = "/.disk"
FOLDERS = {"workspace": "/workspace", "tmp": "/tmp", "home": "/home/sandbox", "shm": "/dev/shm"}
READABLE = ["/usr", "/lib", "/lib64", "/bin", "/opt", "/etc", "/proc", "/packages"]
WRITABLE = list(FOLDERS.values())
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
MASKED = (
    "kcore", "keys", "key-users", "kallsyms", "timer_list", "sched_debug", "sysrq-trigger", "cmdline", "config.gz",
    "modules", "partitions", "diskstats", "swaps", "vmallocinfo", "slabinfo", "iomem", "ioports", "interrupts",
    "kpagecount", "kpageflags", "kpagecgroup", "kmsg", "locks", "buddyinfo", "pagetypeinfo", "zoneinfo",
)  # fmt: skip


def keep(
    control: socket.socket, go: socket.socket, order: wire.Message, cgroups: list[int], files: dict[str, int]
) -> None:
    """Build the sandbox's own walls, say so, and look after it until the host lets go.

    `files` are the folders of the sandbox that this is a live fork of.
    """
    origin = -1
    try:
        if not go.recv(1):
            return
        if order["has_door"]:
            origin = _keep_origin()
        workspace = _build(order, cgroups, files)
    except OSError as failure:
        wire.send(control, {"op": "failed", "error": str(failure)})
        return
    _forget_descriptors(keep={control.fileno(), workspace, origin} - {-1})
    handed = _way_in(order["generation"]) if files else []
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    wire.send(control, {"op": "ready"}, [workspace])
    if files:
        wire.send(control, {"op": "way_in"}, handed)
    for descriptor in (workspace, *handed):
        os.close(descriptor)
    _Service(control, origin, ["", beneath.root_of(order["generation"])] if files else [""]).serve()


def _keep_origin() -> int:
    """Go on in a copy of these mounts. For a fork's own /proc, Linux wants to see one that nothing is masked in."""
    origin = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    linux.unshare(linux.CLONE_NEWNS)
    return origin


def _build(order: wire.Message, cgroups: list[int], files: dict[str, int]) -> int:
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
        "disk", DISK, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode=0755,uid={USER},gid={USER},{_size(order)}"
    )
    for name, target in FOLDERS.items():
        os.mkdir(f"{DISK}/{name}", 0o1777 if name in ("tmp", "shm") else 0o755)
        linux.mount(f"{DISK}/{name}", target, None, linux.MS_BIND)
        if name in files:
            _copy(files[name], f"{DISK}/{name}")
    _show_memory(order)
    linux.umount(DISK)
    if files:
        linux.mount("/", beneath.root_of(order["generation"]), None, linux.MS_BIND | linux.MS_REC)
    return os.open("/workspace", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _way_in(generation: int) -> list[int]:
    """What a live fork needs to come here: our namespaces, and rules for Landlock that are about our files."""
    namespaces = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in KINDS]
    return [*namespaces, rules(generation)]


def rules(generation: int) -> int:
    """Landlock's rules for a kernel."""
    return landlock.ruleset(READABLE, [*WRITABLE, beneath.folder_for_forks(generation)], DEVICES)


@functools.cache
def masked() -> list[str]:
    """What this kernel has in /proc that a sandbox must not read; looked up once."""
    return [f"/proc/{name}" for name in MASKED if os.path.exists(f"/proc/{name}")]


def _show_memory(order: wire.Message) -> None:
    """Let programs that ask how much memory there is see the sandbox's limit."""
    total = int(order["memory_kb"])
    rows = {"MemTotal": total, "MemFree": total, "MemAvailable": total}
    rows |= dict.fromkeys(("Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree"), 0)
    file = os.open(f"{DISK}/meminfo", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.write(file, "".join([f"{name}:{value:>16} kB\n" for name, value in rows.items()]).encode())
    os.close(file)
    linux.mount(f"{DISK}/meminfo", "/proc/meminfo", None, linux.MS_BIND)
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


class _Service:
    """Answers the host until it closes its end; the pid namespace, and all that lives in it, ends with this process."""

    def __init__(self, control: socket.socket, origin: int, roots: list[str]) -> None:
        self._control = control
        self._origin = origin
        self._roots = roots  # a live fork's kernel sees one, a kernel that a zygote made the other
        self._wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        self._listeners: set[int] = set()  # of the kernel's filter; of former ones while live forks have them
        self._kernel = -1
        self._forks: set[int] = set()  # keepers beneath this one
        self._watched: set[int] = set()  # live forks' kernels: Linux makes them our children
        self._door: Door | None = None
        self._entered: Tracee | None = None

    def serve(self) -> None:
        while True:
            for descriptor, event in self._poll.poll():
                if descriptor == self._wake_read:
                    os.read(self._wake_read, 4096)
                    self._reap()
                elif descriptor in self._listeners:
                    if event & select.POLLIN:
                        self._hear(descriptor)
                    else:  # every process under this filter is gone
                        self._drop(descriptor)
                elif descriptor == self._control.fileno():
                    received = wire.receive(self._control)
                    if received is None:
                        return
                    self._follow(*received)

    def _follow(self, message: wire.Message, descriptors: list[int]) -> None:
        operation = message["op"]
        if operation == "kernel":
            self._kernel = int(message["pid"])
            for listener in descriptors:
                self._listeners.add(listener)
                self._poll.register(listener, select.POLLIN)
        elif operation == "kill":
            self._kill(self._kernel if message.get("spare") else None)
            wire.send(self._control, {"op": "killed"})
        elif operation == "packages":
            wire.send(self._control, {"op": "shown", "error": packages.show(descriptors, self._roots)})
        elif operation == "nest":
            try:
                pid, pidfd = self._nest(message, descriptors)
            except OSError as failure:
                wire.send(self._control, {"op": "nested", "error": str(failure)})
            else:
                wire.send(self._control, {"op": "nested", "pid": pid}, [pidfd])
                os.close(pidfd)
            for descriptor in descriptors:
                os.close(descriptor)
        elif operation == "door":
            self._shut()
            self._door = Door(message["root"], int(message["pid_namespace"]), descriptors)
        elif operation == "forsake":
            for path in [root + folder for root in self._roots for folder in FOLDERS.values()]:
                with contextlib.suppress(OSError):
                    linux.umount(path)
        elif operation == "watch":
            self._watched.add(int(message["pid"]))
        elif operation == "release" and self._entered is not None:
            entered, self._entered = self._entered, None
            with contextlib.suppress(OSError):  # it was ended meanwhile, and the host will hear so
                entered.release()
        elif operation == "shut":
            self._shut()

    def _nest(self, order: wire.Message, descriptors: list[int]) -> tuple[int, int]:
        """A keeper beneath this one, in namespaces that our door owns. Descriptors: its control socket, its cgroups."""
        files = {name: os.open(path, os.O_RDONLY | os.O_DIRECTORY) for name, path in FOLDERS.items()}
        mounts = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        go, wait = socket.socketpair()
        try:
            try:
                os.setresuid(-1, DOOR, -1)
                linux.setns(self._origin, linux.CLONE_NEWNS)
                linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or nobody could write its id map
                pid, pidfd = linux.clone(NAMESPACES)
                if pid == 0:
                    try:
                        go.close()
                        keep(socket.socket(fileno=descriptors[0]), wait, order, descriptors[1:], files)
                    finally:
                        os._exit(0)
            finally:
                linux.setns(mounts, linux.CLONE_NEWNS)
                os.setresuid(-1, USER, -1)
            self._forks.add(pid)
            for name in ("uid_map", "gid_map"):
                linux.write_file(f"/proc/{pid}/{name}", order["map"])
            go.send(b"g")
            return pid, pidfd
        finally:
            linux.prctl(linux.PR_SET_DUMPABLE, 0)
            go.close()
            wait.close()
            for descriptor in (*files.values(), mounts):
                os.close(descriptor)

    def _hear(self, listener: int) -> None:
        """Answer one `unshare`: a knock at an open door, or what is refused."""
        if self._door is None:
            time.sleep(0.001)  # in no hurry: a flood of them must not keep this process busy
        try:
            call = Notification(listener)
        except OSError:  # the caller died meanwhile
            return
        if self._door is None or call.arguments[0]:
            refuse(call)
            return
        door, self._door = self._door, None
        try:
            self._entered = door.admit(listener, call)
            pidfd = os.pidfd_open(self._entered.pid)
        except Refused as failure:
            refuse(call, errno.EACCES)
            wire.send(self._control, {"op": "entered", "refused": str(failure)})
        except OSError as failure:
            self._shut()
            refuse(call)  # if it lives
            wire.send(self._control, {"op": "entered", "error": str(failure)})
        else:
            wire.send(self._control, {"op": "entered"}, [pidfd])
            os.close(pidfd)
        finally:
            door.close()
            self._reap()

    def _shut(self) -> None:
        """Close the door; who stands in it ends."""
        if self._door is not None:
            self._door.close()
            self._door = None
        if self._entered is not None:
            self._entered.end()
            self._entered = None

    def _drop(self, listener: int) -> None:
        self._listeners.discard(listener)
        self._poll.unregister(listener)
        os.close(listener)

    def _kill(self, spared: int | None) -> None:
        """End everything in the sandbox but this process, its live forks and, when named, the kernel."""
        if spared is None and not self._forks:
            _kill_all()
            return
        stopped: set[int] = set()
        for _ in range(100):  # what is stopped makes no more, and takes up the room for more
            if not (fresh := {*self._others(spared)} - stopped):
                break
            _signal(fresh, signal.SIGSTOP)
            stopped |= fresh
        for _ in range(100):  # the dying take a moment
            if not (others := self._others(spared)):
                return
            _signal(others, signal.SIGKILL)
            self._reap()
            time.sleep(0.002)
        _kill_all()

    def _others(self, spared: int | None) -> list[int]:
        """Who lives in this sandbox, but for this process, one that is spared, and live forks."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, spared)]
        return [pid for pid in pids if not _is_zombie(pid) and not (self._forks and _is_beneath(pid))]

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._forks.discard(pid)
                if pid in self._watched and not os.WIFSTOPPED(status):
                    self._watched.discard(pid)
                    wire.send(self._control, {"op": "exit", "pid": pid, "status": status})


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_all() -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _is_beneath(pid: int) -> bool:
    """Whether a process lives in a pid namespace beneath this one: a live fork's."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return len(file.read().partition(b"\nNSpid:")[2].partition(b"\n")[0].split()) > 1
    except OSError:
        return False


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True
