"""The system-call filters of a foreign program: one process of many threads that reads, computes and answers on pipes.

Much narrower than a kernel's: no sockets, no child process, nothing written to a file. A first filter, the door, passes
`execve` to the host (user notification), which lets the one that starts the program through and hangs up: any later
one fails. The second says what else may be called; where both speak, the stricter word counts.
"""

from __future__ import annotations

import functools
import socket

from belljar_jail import bpf, linux
from belljar_jail.bpf import (
    ALLOW,
    ENOSYS,
    EPERM,
    ERRNO,
    JEQ,
    JSET,
    LOAD,
    NOTIFY,
    NUMBER,
    RET,
    Body,
    always,
    argument,
)
from belljar_jail.seccomp import CLONE_PARENT, NAMESPACES, TRACED
from belljar_jail.syscall_table import ALLOWED, REFUSED, SPECIAL

CLONE_THREAD = 0x10000
F_SETLK = 6  # SQLite insists on locks, also of files that nobody can change. It is told that it has them: a real one
# would be seen by every sandbox with the same files.
STARTS = ("execve", "execveat")
NEEDED = {
    # V8 maps and protects its heaps and the code it makes; membarrier orders that code between threads
    "memory": "brk madvise membarrier mmap mprotect mremap munmap",
    # what libc does for threads, and V8 for its pool of them
    "threads": "arch_prctl exit exit_group futex gettid rseq sched_getaffinity sched_getparam "
    "sched_getscheduler sched_yield set_robust_list set_tid_address",
    # WebAssembly's bounds checks are faults that V8 handles; tgkill is abort(), and reaches its own process only
    "signals": "restart_syscall rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack tgkill",
    # reading what Landlock lets it, writing to the pipes it was given
    "files": "access close faccessat faccessat2 fstat getcwd getdents64 lseek lstat newfstatat open openat "
    "pread64 read readlink readlinkat readv stat statx write writev",
    # the event loop, which wakes itself through an eventfd and a pair of sockets that lead nowhere else
    "events": "epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 pipe2 poll ppoll recvfrom sendto",
    "clocks": "clock_getres clock_gettime clock_nanosleep gettimeofday nanosleep time",
    "itself": "getegid geteuid getgid getpid getppid getrandom getrlimit getrusage getuid sysinfo uname",
}
VALUES = {  # call: (which argument, what it may be)
    # duplicates and flags, and whether a file is locked, which none ever is: see F_SETLK. No leases or pipe sizes.
    "fcntl": (1, (0, 1, 2, 3, 4, 5, 1030)),
    "ioctl": (1, (0x5401, 0x5413, 0x5421, 0x5451)),  # is it a terminal, how wide; non-blocking, close on exec
    "prctl": (0, (15, 16, 23, 0x53564D41)),  # names of threads and memory; whether a capability is in the bounding set
    "prlimit64": (0, (0,)),  # its own limits
    "socketpair": (0, (int(socket.AF_UNIX),)),
}


def install_door() -> int:
    """Load the first filter into this thread, for good, and return the descriptor that hears of `execve`."""
    return bpf.load(compiled()[0])


def install() -> None:
    """Load the second."""
    bpf.load(compiled()[1], 0)


@functools.cache
def compiled() -> tuple[bytes, bytes]:
    """Both filters for this machine; made once, before there is anything to filter."""
    return bpf.assemble(door(linux.MACHINE)), bpf.assemble(program(linux.MACHINE))


def allowed() -> list[str]:
    """The calls that are let through whatever their arguments are."""
    return [name for names in NEEDED.values() for name in names.split()]


def door(machine: str) -> Body:
    """The filter that passes the start of a program on, and lets everything else be judged by the other."""
    column = list(bpf.AUDIT_ARCH).index(machine)
    starts = [(ALLOWED[name][column], always(NOTIFY)) for name in STARTS]
    return [(LOAD, 0, 0, NUMBER), *bpf.decide(starts, always(ALLOW))]


def program(machine: str) -> Body:
    """The second filter for one architecture. What it knows and does not allow is EPERM, anything else ENOSYS."""
    column = list(bpf.AUDIT_ARCH).index(machine)
    known = {**SPECIAL, **REFUSED, **ALLOWED}
    ruled = {
        "clone3": always(ERRNO | ENOSYS),  # its flags are out of reach: use clone
        "clone": _threads_alone(),
        "fcntl": _unless(1, F_SETLK, ERRNO | 0, bpf.allow_values(*VALUES["fcntl"], EPERM)),
        **{name: bpf.allow_values(*only, EPERM) for name, only in VALUES.items() if name != "fcntl"},
        **dict.fromkeys([*allowed(), *STARTS], always(ALLOW)),
    }
    refused = ("unshare", *TRACED, *REFUSED, *ALLOWED)
    rules = [(known[name][column], body) for name, body in ruled.items()]
    rules += [(known[name][column], always(ERRNO | EPERM)) for name in refused]
    return bpf.prologue(machine) + bpf.decide(rules, always(ERRNO | ENOSYS))


def _unless(index: int, value: int, answer: int, others: Body) -> Body:
    """An answer of its own for one value of an argument."""
    return [argument(index), (JEQ, 0, 1, value), (RET, 0, 0, answer), *others]


def _threads_alone() -> Body:
    """Threads of the same process, in its own namespaces."""
    return [
        argument(0),
        (JSET, 1, 0, NAMESPACES | CLONE_PARENT),
        (JSET, 1, 0, CLONE_THREAD),
        (RET, 0, 0, ERRNO | EPERM),
        (RET, 0, 0, ALLOW),
    ]
