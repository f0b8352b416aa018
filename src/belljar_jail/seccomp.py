"""The system-call filter: an allow-list compiled to BPF and loaded once. Nothing here decides policy at run time.

`unshare` is passed to the keeper (user notification), which refuses it, unless it is the knock of a live fork. What a
fork then calls to enter its own walls can be called by a process that the keeper traces, and by no other.
"""

from __future__ import annotations

import functools
import socket

from belljar_jail import bpf, linux
from belljar_jail.bpf import (
    ALLOW,
    AND,
    AUDIT_ARCH,
    EAFNOSUPPORT,
    ENOSYS,
    EPERM,
    ERRNO,
    JEQ,
    NOTIFY,
    RET,
    TRACE,
    Body,
    always,
    argument,
    refuse_bits,
    refuse_values,
)
from belljar_jail.syscall_table import ALLOWED, REFUSED, SPECIAL

NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
    | 0x80  # CLONE_NEWTIME
)
CLONE_PARENT = (
    0x8000  # would make children of the zygote, whose ends it would report under numbers that others get next
)
TRACED = ("capset", "chroot", "landlock_restrict_self", "setns", "setregid", "setreuid")
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
F_SETLEASE, F_NOTIFY = 1024, 1026  # like inotify, they would tell what the host does with files that are shown inside
# A filter on top could answer for the calls that lead a live fork into its walls, as if they had been made; and a
# process that takes in orphans would have the forks' kernels for children, whose ends are then told to nobody else.
PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER = 22, 36
S_IFMT, S_IFCHR, S_IFBLK = 0o170000, 0o020000, 0o060000


def install() -> int:
    """Load the filter into this thread, for good, and return the descriptor that hears of `unshare`."""
    return bpf.load(compiled())


@functools.cache
def compiled() -> bytes:
    """The filter for this machine; made once, before there is anything to filter."""
    return bpf.assemble(program(linux.MACHINE))


def program(machine: str) -> Body:
    """The whole filter for one architecture."""
    column = list(AUDIT_ARCH).index(machine)
    ruled = {
        "clone3": always(ERRNO | ENOSYS),  # its flags are out of reach: use clone
        "unshare": always(NOTIFY),
        **dict.fromkeys(TRACED, always(TRACE)),  # without a tracer: no such call
        "clone": refuse_bits(0, NAMESPACES | CLONE_PARENT, EPERM),
        "socket": _socket_rules(),
        "ioctl": refuse_values(1, (TIOCSTI, TIOCLINUX), EPERM),
        "fcntl": refuse_values(1, (F_SETLEASE, F_NOTIFY), EPERM),
        "prctl": refuse_values(0, (PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER), EPERM),
        "prlimit64": _refuse_others(),
        "mknod": _refuse_devices(1),
        "mknodat": _refuse_devices(2),
    }
    known = {**SPECIAL, **ALLOWED}
    rules = [(known[name][column], body) for name, body in ruled.items()]
    rules += [(numbers[column], always(ALLOW)) for numbers in ALLOWED.values()]
    rules += [(numbers[column], always(ERRNO | EPERM)) for numbers in REFUSED.values()]
    return bpf.prologue(machine) + bpf.decide(rules, always(ERRNO | ENOSYS))


def _refuse_others() -> Body:
    """Limits of the caller alone: the keeper has the same user id, and could be starved of descriptors or time."""
    return [argument(0), (JEQ, 0, 1, 0), (RET, 0, 0, ALLOW), (RET, 0, 0, ERRNO | EPERM)]


def _refuse_devices(index: int) -> Body:
    mask: Body = [argument(index), (AND, 0, 0, S_IFMT)]
    return mask + refuse_values(index, (S_IFCHR, S_IFBLK), EPERM)[1:]


def _socket_rules() -> Body:
    """Unix, IPv4 and IPv6; streams, datagrams and sequenced packets."""
    families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
    return [
        argument(0),
        (JEQ, 3, 0, int(families[0])),
        (JEQ, 2, 0, int(families[1])),
        (JEQ, 1, 0, int(families[2])),
        (RET, 0, 0, ERRNO | EAFNOSUPPORT),
        argument(1),
        (AND, 0, 0, 0xF),
        (JEQ, 2, 0, int(socket.SOCK_STREAM)),
        (JEQ, 1, 0, int(socket.SOCK_DGRAM)),
        (JEQ, 0, 1, int(socket.SOCK_SEQPACKET)),
        (RET, 0, 0, ALLOW),
        (RET, 0, 0, ERRNO | EPERM),
    ]
