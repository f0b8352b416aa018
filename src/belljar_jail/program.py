"""A foreign program in place of a kernel: the way from a fork of the zygote, through the walls, to its `execve`.

The walls are a kernel's and close in the same order; where they differ they are narrower. No user code runs before.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
from typing import NoReturn

from belljar_jail import landlock, linux, program_filter, wire
from belljar_jail.ids import USER
from belljar_jail.walls import INTO

REPORT = 3  # closes with the `execve`: nothing said on it means that the program runs


def become(order: wire.Message, descriptors: list[int]) -> NoReturn:
    """Turn this fork into the program. Descriptors: the keeper's pidfd, report, stdin, stdout, stderr, cgroups."""
    keeper, report, *streams = descriptors[:5]
    try:
        _forget_signals()
        _enter(order, keeper, [*streams, report], descriptors[5:])
        os.execve(order["argv"][0], order["argv"], order["env"])
    except OSError as failure:
        said = json.dumps({"op": "failed", "error": str(failure)}).encode()
        for target in (report, REPORT):
            with contextlib.suppress(OSError):
                os.write(target, said)
    finally:
        os._exit(1)


def _enter(order: wire.Message, keeper: int, streams: list[int], cgroups: list[int]) -> None:
    """Join the keeper's namespaces and shut every wall; only descriptors 0-2 live on after the `execve`."""
    for descriptor in cgroups:
        os.write(descriptor, b"0")
    linux.write_file("/proc/self/oom_score_adj", "1000")  # the keeper must outlive an out-of-memory kill
    linux.setns(keeper, INTO)
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    _settle_descriptors(streams)
    os.setsid()
    os.umask(0o077)
    os.chdir("/")
    for name, value in order["rlimits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    linux.drop_capabilities()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if "landlock" not in order["without"]:
        landlock.restrict(["/"], [])  # all that its root has is there to be read, nothing to be written
        landlock.execute_only(order["executable"])
    if "seccomp" in order["without"]:
        return
    listener = program_filter.install_door()
    with socket.socket(fileno=os.dup(REPORT)) as end:
        wire.send(end, {"op": "walls"}, [listener])
    os.close(listener)
    program_filter.install()


def _settle_descriptors(streams: list[int]) -> None:
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in streams]
    for target, descriptor in enumerate(high):
        os.dup2(descriptor, target, inheritable=target != REPORT)
    os.closerange(REPORT + 1, 1 << 20)


def _forget_signals() -> None:
    """What Python and the zygote ignore or handle would be ignored by the program too."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
