"""Stage one: build the outer wall, then exec the environment's Python inside it. Run as a script, never imported.

The parent stays outside, waits, and ends with its child; the child becomes process 1 of the outer pid namespace.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from belljar_jail import linux, root, wire

OUTER = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


def main(descriptor: int) -> None:
    """Take the plan from the host and build what it says."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # a fork of the host may hold the socket whose end we wait for
    control = socket.socket(fileno=descriptor)
    received = wire.receive(control)
    if received is None:
        return
    plan = received[0]
    try:
        _launch(control, plan)
    except OSError as failure:
        wire.send(control, {"op": "failed", "error": str(failure)})
        raise SystemExit(1) from None


def _launch(control: socket.socket, plan: wire.Message) -> None:
    as_root = os.getuid() == 0
    user, group = os.getuid(), os.getgid()
    host_proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    linux.unshare(OUTER if as_root else OUTER | linux.CLONE_NEWUSER)
    if not as_root:
        linux.write_file("/proc/self/setgroups", "deny")
        linux.write_file("/proc/self/uid_map", f"0 {user} 1")
        linux.write_file("/proc/self/gid_map", f"0 {group} 1")
    outside, inside = socket.socketpair()
    child = os.fork()
    if child:
        inside.close()
        control.close()
        if as_root and outside.recv(1):
            _map_ids(host_proc, child, plan["ids"])
            outside.send(b"m")
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
    outside.close()
    try:
        root.build(plan["steps"])
        if as_root:
            linux.unshare(linux.CLONE_NEWUSER)
            inside.send(b"u")
            if not inside.recv(1):
                raise OSError("the user namespace could not be mapped")
            os.setgroups([])
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        os.set_inheritable(control.fileno(), True)
        program = f"from belljar_jail.zygote import main; main({control.fileno()})"
        os.execve(plan["python"], [plan["python"], "-I", "-B", "-c", program], plan["env"])
    except OSError as failure:
        wire.send(control, {"op": "failed", "error": str(failure)})
    finally:
        os._exit(1)


def _map_ids(host_proc: int, child: int, ids: tuple[int, int]) -> None:
    first, count = ids
    for name in ("uid_map", "gid_map"):
        descriptor = os.open(f"{child}/{name}", os.O_WRONLY, dir_fd=host_proc)
        os.write(descriptor, f"0 {first} {count}".encode())
        os.close(descriptor)


if __name__ == "__main__":
    main(int(sys.argv[1]))
