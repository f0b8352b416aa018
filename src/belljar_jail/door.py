"""The door through which a live fork leaves its parent's namespaces for its own. Opened by the keeper, for one process.

A fork of a kernel knocks (`unshare` of nothing, which the filter passes on). From there on it makes only the calls that
are ordered here, until it is where it belongs, without a capability and without a descriptor of its parent's. None of
its own code runs while it has power over anything.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import select
import signal
import struct

from belljar_jail import linux
from belljar_jail.ids import DOOR, USER
from belljar_jail.tracing import Tracee

NOTIFY_RECEIVE, NOTIFY_SEND, NOTIFY_ADD = 0xC0502100, 0xC0182101, 0x40182103
KINDS = ("user", "mnt", "net", "ipc", "uts", "cgroup", "pid")
UNSHARE, SETNS, SETREUID, SETREGID, CAPSET, CLONE, CLOSE_RANGE = 272, 308, 113, 114, 126, 56, 436
CHROOT, LANDLOCK_RESTRICT_SELF, MMAP, MUNMAP, WRITE, PRCTL = 161, 446, 9, 11, 1, 157
PAGE, READ_WRITE, PRIVATE_ANONYMOUS, ITSELF_AT, ROOT_AT = 4096, 3, 0x22, 64, 128
CHANNEL, FIRST_PLANTED, LAST = 3, 900, 0xFFFFFFFF
ENDS = (CHANNEL, 1, 2)
CLONE_CHILD = 0x00200000 | 0x01000000 | signal.SIGCHLD  # a fork whose C library learns its number
SAME, CONTINUE, SET_NUMBER, OWN_TABLE, CLOSE_ON_EXEC = -1, 1, 1, 2, 0o2000000
CAPABILITIES = struct.pack("2I6I", 0x20080522, 0, *[0] * 6)
WAIT_MS = 5000


class Refused(Exception):
    """Whoever knocked cannot be let through, as things are; says why."""


class Notification:
    """One call that waits for our word."""

    def __init__(self, listener: int) -> None:
        record = bytearray(80)
        fcntl.ioctl(listener, NOTIFY_RECEIVE, record)
        self._listener = listener
        self._id, self.pid = struct.unpack_from("QI", record)
        self.number: int = struct.unpack_from("i", record, 16)[0]
        self.arguments: tuple[int, ...] = struct.unpack_from("6Q", record, 32)

    def answer(self, error: int = 0, flags: int = 0) -> None:
        """The call's result: an errno, or that it be made."""
        fcntl.ioctl(self._listener, NOTIFY_SEND, bytearray(struct.pack("QqiI", self._id, 0, -error, flags)))

    def plant(self, descriptor: int, number: int) -> None:
        """Give the caller a descriptor under this number."""
        flags = CLOSE_ON_EXEC if number >= CHANNEL else 0
        fcntl.ioctl(self._listener, NOTIFY_ADD, struct.pack("QIIII", self._id, SET_NUMBER, descriptor, number, flags))


class Door:
    """Open for one fork of one sandbox."""

    def __init__(self, root: str, pid_namespace: int, descriptors: list[int]) -> None:
        self._root = root
        self._pid_namespace = pid_namespace  # of the sandbox that is forked
        self._way = descriptors[: len(KINDS) + 1]  # namespaces, and rules for Landlock
        self._ends = descriptors[len(KINDS) + 1 :][: len(ENDS)]
        self._groups = descriptors[len(KINDS) + 1 + len(ENDS) :]  # to join its control groups by

    def close(self) -> None:
        """Let go of what lies behind it."""
        for descriptor in (*self._way, *self._ends, *self._groups):
            os.close(descriptor)
        self._way, self._ends, self._groups = [], [], []

    def admit(self, listener: int, knock: Notification) -> Tracee:
        """Bring whoever knocked into the fork's namespaces; the process there, stopped. The one that knocked is ended.

        Raises:
            Refused: when it cannot be let through; it goes on then, and is told so.
            OSError: when it failed on the way; it was ended.
        """
        self._check(knock)
        try:
            tracee = Tracee.seize(knock.pid)
        except PermissionError as failure:
            raise Refused(f"it cannot be traced ({failure.strerror})") from None
        try:
            page = self._pass(tracee, listener)
            fork = tracee.clone(CLONE, CLONE_CHILD, 0, 0, knock.arguments[1])
        finally:
            tracee.end()
        try:
            # Nothing of the parent's is left open, not even in a table that another process may share.
            fork.call(CLOSE_RANGE, 0, LAST, OWN_TABLE)
            groups = dict(enumerate(self._groups, FIRST_PLANTED))
            self._plant(fork, listener, dict(zip(ENDS, self._ends, strict=True)) | groups)
            for number in groups:
                fork.call(WRITE, number, page + ITSELF_AT, 1)
            fork.call(CLOSE_RANGE, FIRST_PLANTED, LAST, 0)
            fork.call(MUNMAP, page, PAGE)
        except OSError:
            fork.end()
            raise
        return fork

    def is_for(self, knock: Notification) -> bool:
        """Whether it is the sandbox that is forked who knocks, and not another of its family."""
        try:
            return os.stat(f"/proc/{knock.pid}/ns/pid").st_ino == self._pid_namespace
        except OSError:
            return False

    def _check(self, knock: Notification) -> None:
        try:
            with open(f"/proc/{knock.pid}/status", "rb") as file:
                if b"\nThreads:\t1\n" not in file.read():
                    raise Refused("it has threads")
        except OSError as failure:
            raise Refused(f"it could not be looked at: {failure.strerror}") from None

    def _pass(self, tracee: Tracee, listener: int) -> int:
        """Everything but the pid namespace, which is for its children; where its memory has a page of ours."""
        *numbers, rules = range(FIRST_PLANTED, FIRST_PLANTED + len(self._way))
        tracee.call(CLOSE_RANGE, FIRST_PLANTED, LAST, OWN_TABLE)
        self._plant(tracee, listener, dict(zip((*numbers, rules), self._way, strict=True)))
        page = tracee.call(MMAP, 0, PAGE, READ_WRITE, PRIVATE_ANONYMOUS, SAME, 0)  # while we may write to its memory
        tracee.put(CAPABILITIES, page)
        tracee.put(b"0", page + ITSELF_AT)
        root = tracee.put(self._root.encode() + b"\0", page + ROOT_AT)
        tracee.call(SETREUID, SAME, DOOR)  # owner of the namespaces behind the door, for as long as the door is open
        for number in numbers:
            tracee.call(SETNS, number, 0)
        tracee.call(CHROOT, root)
        tracee.call(LANDLOCK_RESTRICT_SELF, rules, 0)
        tracee.call(SETREGID, USER, USER)
        tracee.call(SETREUID, USER, DOOR)
        tracee.call(SETREUID, SAME, USER)
        for capability in range(_last_capability() + 1):
            tracee.call(PRCTL, linux.PR_CAPBSET_DROP, capability, 0, 0, 0)
        tracee.call(CAPSET, page, page + 8)
        return page

    def _plant(self, tracee: Tracee, listener: int, descriptors: dict[int, int]) -> None:
        def plant() -> None:
            notification = _next_of(listener, tracee.pid)
            for number, descriptor in descriptors.items():
                notification.plant(descriptor, number)
            notification.answer(flags=CONTINUE)

        tracee.call(UNSHARE, 0, meanwhile=plant)


def _next_of(listener: int, pid: int) -> Notification:
    """The notification of this very process; whoever else calls meanwhile is refused."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while poll.poll(WAIT_MS):
        notification = Notification(listener)
        if notification.pid == pid:
            return notification
        refuse(notification)
    raise OSError("the process does not call")


@functools.cache
def _last_capability() -> int:
    with open("/proc/sys/kernel/cap_last_cap", "rb") as file:
        return int(file.read())


def refuse(notification: Notification, error: int = errno.EPERM) -> None:
    """No; nothing at all, when the caller died meanwhile."""
    try:
        notification.answer(error)
    except OSError as failure:
        if failure.errno not in (errno.ENOENT, errno.EINTR):
            raise
