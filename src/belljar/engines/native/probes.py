"""Runs inside a sandbox, as user code: tries to get through each wall, and tells. Standard library only."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

Action = Callable[[], Any]
REFUSED = (errno.EPERM, errno.ENOSYS)


def findings(canary: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per wall; `holds` is True when every attempt failed as it should."""
    return [
        _row("namespaces", _namespaces(), "sees its own processes only, as an ordinary user"),
        _row("root", _root(canary), "a canary file of the host cannot be read, the system cannot be written"),
        _row("network", _network(canary), "canary listeners on the host cannot be reached"),
        _row("capabilities", _capabilities(), "none, and no way to get any"),
        _row("seccomp", _seccomp(), "unshare, ptrace, mount and odd sockets are refused"),
        _row("landlock", _landlock(), "what file permissions would allow beyond the workspace is refused"),
        _row("processes", _processes(canary["processes"]), "a fork bomb stopped at the limit"),
    ]


def _namespaces() -> list[str | None]:
    seen = [name for name in os.listdir("/proc") if name.isdigit()]
    return [f"sees processes {seen}" if len(seen) > 2 else None, "is root" if os.getuid() == 0 else None]


def _root(canary: dict[str, Any]) -> list[str | None]:
    return [
        _tried("read a file of the host", lambda: os.open(canary["path"], os.O_RDONLY)),
        _tried("wrote to /usr/bin", lambda: os.open("/usr/bin/canary", os.O_WRONLY | os.O_CREAT)),
        _tried("wrote to /", lambda: os.open("/canary", os.O_WRONLY | os.O_CREAT)),
    ]


def _network(canary: dict[str, Any]) -> list[str | None]:
    return [
        _tried("reached the host's loopback", lambda: _connect(socket.AF_INET, ("127.0.0.1", canary["port"]))),
        _tried("reached an abstract socket", lambda: _connect(socket.AF_UNIX, "\0" + canary["abstract"])),
    ]


def _capabilities() -> list[str | None]:
    facts = _status()
    held: list[str | None] = [
        f"{name} {facts[name]}" for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb") if int(facts[name], 16)
    ]
    return [*held, None if facts["NoNewPrivs"] == "1" else "privileges can grow"]


def _seccomp() -> list[str | None]:
    return [
        None if _status()["Seccomp"] == "2" else "no filter",
        _tried("unshare", lambda: _call("unshare", 0x10000000), *REFUSED),
        _tried("ptrace", lambda: _call("ptrace", 0, 0, 0, 0), *REFUSED),
        _tried("mount", lambda: _call("mount", b"none", b"/tmp", b"tmpfs", 0, None), *REFUSED),
        _tried("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    ]


def _landlock() -> list[str | None]:
    return [_tried("wrote to /proc/self/comm", lambda: os.open("/proc/self/comm", os.O_WRONLY), errno.EACCES)]


def _processes(limit: int) -> list[str | None]:
    children: list[int] = []
    while len(children) <= limit + 100:
        try:
            child = os.fork()
        except BlockingIOError:
            break
        if child == 0:
            signal.pause()
        children.append(child)
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return [f"made {len(children)} processes with a limit of {limit}" if len(children) > limit else None]


def _row(name: str, bad: list[str | None], good: str) -> dict[str, Any]:
    found = [item for item in bad if item]
    return {"name": name, "holds": not found, "detail": "; ".join(found) or good}


def _tried(what: str, action: Action, *expected: int) -> str | None:
    """None when the action was refused, with one of the expected errors where some are given."""
    try:
        action()
    except OSError as failure:
        return None if not expected or failure.errno in expected else f"{what} failed oddly: {failure}"
    return what


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def _connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as end:
        end.settimeout(2)
        end.connect(address)


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
