"""What a kernel process closes behind itself, in order, before it reads its first Request."""

from __future__ import annotations

import os
import resource
import socket
import struct

from belljar_jail import landlock, linux, seccomp, wire
from belljar_jail.ids import DOOR, USER
from belljar_jail.keeper import rules
from belljar_kernel.protocol import CHANNEL, WORKSPACE

INTO = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWCGROUP
)


def enter(order: wire.Message, keeper: int, channel: int, streams: tuple[int, int], cgroups: list[int]) -> None:
    """Join the keeper's namespaces and shut every wall; only descriptors 0-2 and the channel are left after it."""
    for descriptor in cgroups:
        os.write(descriptor, b"0")
    linux.setns(keeper, INTO)
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, DOOR if order["has_door"] else USER)  # not to be called up but by the keeper's hand
    _settle_descriptors(channel, streams)
    os.setsid()
    os.umask(0o022)
    os.chdir(WORKSPACE)
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # so that the sandbox may read its own /proc/self
    linux.write_file("/proc/self/oom_score_adj", "1000")  # the keeper must outlive an out-of-memory kill
    for name, value in order["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    linux.drop_capabilities()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if "landlock" not in order["without"]:
        landlock.enforce(rules(order["generation"], order["mounts"]))
    _announce([] if "seccomp" in order["without"] else [seccomp.install()])


def _settle_descriptors(channel: int, streams: tuple[int, int]) -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    moved = [os.dup(descriptor) for descriptor in (nothing, *streams, channel)]
    high = [_above(descriptor) for descriptor in moved]
    for target, descriptor in enumerate(high):
        os.dup2(descriptor, target, inheritable=target != CHANNEL)
    os.closerange(CHANNEL + 1, 1 << 20)


def _above(descriptor: int) -> int:
    """A copy beyond the numbers that are about to be replaced."""
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64)


def _announce(listeners: list[int]) -> None:
    """Tell the host that the walls are closed, and hand out the filter's listener for the keeper."""
    body = b'{"type": "walls", "id": 0, "pid": %d}' % os.getpid()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(CHANNEL)) as end:
        socket.send_fds(end, [struct.pack(">I", len(body)) + body], listeners)
    for descriptor in listeners:
        os.close(descriptor)
