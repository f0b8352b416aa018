"""What a keeper does while its sandbox lives: it follows the host's orders, reaps, kills, and minds the door."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable

from belljar_jail import linux, mounts, packages, wire
from belljar_jail.door import Door, Notification, Refused, refuse
from belljar_jail.ids import DOOR, USER
from belljar_jail.tracing import Tracee, tracing
from belljar_kernel.protocol import HOME, SHM, TMP, WORKSPACE

NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
FOLDERS = {"workspace": WORKSPACE, "tmp": TMP, "home": HOME, "shm": SHM}

Keep = Callable[[socket.socket, socket.socket, wire.Message, list[int], dict[str, int], list[int]], None]


class Service:
    """Answers the host until it closes its end; the pid namespace, and all that lives in it, ends with this process."""

    def __init__(self, control: socket.socket, origin: int, roots: list[str], keep: Keep) -> None:
        self._control = control
        self._keep = keep
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
        self._door_order = 0
        self._entered: Tracee | None = None

    def serve(self) -> None:
        self._rehearse()
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

    def _rehearse(self) -> None:
        """Do once what follows a kernel's end, but for killing: with files in all the memory there is none for it."""
        ours, theirs = wire.pair()
        with ours, theirs:
            wire.send(theirs, {"op": "rehearse"})
            if (order := wire.receive(ours)) is not None:
                self._follow(*order)
            listener = os.dup(theirs.fileno())
            self._listeners.add(listener)
            self._poll.register(listener, select.POLLIN)
            self._drop(listener)
        _signal((), signal.SIGKILL)

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
        elif operation == "mounts":
            wire.send(self._control, {"op": "shown", "error": mounts.show(message["at"], descriptors)})
        elif operation == "refresh":
            wire.send(self._control, {"op": "shown", "error": mounts.refresh(message["at"])})
        elif operation == "nest":
            try:
                pid, pidfd = self._nest(message, descriptors)
            except OSError as failure:
                wire.send(self._control, {"op": "nested", "order": message["order"], "error": str(failure)})
            else:
                wire.send(self._control, {"op": "nested", "order": message["order"], "pid": pid}, [pidfd])
                os.close(pidfd)
            for descriptor in descriptors:
                os.close(descriptor)
        elif operation == "expect":
            self._heed(0)
        elif operation == "door":
            self._shut()
            self._door = Door(message["root"], int(message["pid_namespace"]), descriptors)
            self._heed(select.POLLIN)
            self._door_order = message["order"]
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
            self._heed(select.POLLIN)

    def _nest(self, order: wire.Message, descriptors: list[int]) -> tuple[int, int]:
        """A keeper beneath this one, in namespaces that our door owns.

        Descriptors: its control socket, trees that it mounts, its cgroups.
        """
        control, *others = descriptors
        trees, cgroups = others[: len(order["mounts"])], others[len(order["mounts"]) :]
        files = {name: os.open(path, os.O_RDONLY | os.O_DIRECTORY) for name, path in FOLDERS.items()}
        here = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
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
                        self._keep(socket.socket(fileno=control), wait, order, cgroups, files, trees)
                    finally:
                        os._exit(0)
            finally:
                linux.setns(here, linux.CLONE_NEWNS)
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
            for descriptor in (*files.values(), here):
                os.close(descriptor)

    def _heed(self, events: int) -> None:
        """Answer knocks from now on, or let them wait: the door is about to be opened."""
        for listener in self._listeners:
            self._poll.modify(listener, events)

    def _hear(self, listener: int) -> None:
        """Answer one `unshare`: a knock at an open door, or what is refused."""
        if self._door is None:
            time.sleep(0.001)  # in no hurry: a flood of them must not keep this process busy
        try:
            call = Notification(listener)
        except OSError:  # the caller died meanwhile
            return
        if self._door is None or call.arguments[0] or not self._door.is_for(call):
            refuse(call)
            return
        door, self._door = self._door, None
        try:
            with tracing():
                self._entered = door.admit(listener, call)
            pidfd = os.pidfd_open(self._entered.pid)
        except Refused as failure:
            refuse(call, errno.EACCES)
            wire.send(self._control, {"op": "entered", "order": self._door_order, "refused": str(failure)})
        except OSError as failure:
            self._shut()
            refuse(call)  # if it lives
            wire.send(self._control, {"op": "entered", "order": self._door_order, "error": str(failure)})
        else:
            wire.send(self._control, {"op": "entered", "order": self._door_order}, [pidfd])
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
