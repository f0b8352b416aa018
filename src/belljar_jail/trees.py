"""Opens folders as trees for a host that cannot do so itself. Run as a script, never imported.

For an ordinary user it has a mount namespace of its own, which is a copy of the host's, and power over nothing else.
For root it maps owners, which takes a process in another user namespace, and the host does not fork.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from belljar_jail import linux, wire


def main(descriptor: int, has_power: bool) -> None:
    """Answer each path with its tree, until the host goes away."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    control = socket.socket(fileno=descriptor)
    if not has_power:
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
    while received := wire.receive(control):
        order = received[0]
        try:
            tree = linux.open_tree(order["path"], order["through_links"])
        except OSError as failure:
            wire.send(control, {"error": str(failure)})
            continue
        if order["reader"] is not None:
            with contextlib.suppress(OSError):  # not every file system can: then they see what others may see
                _show_to(tree, int(order["reader"]))
        wire.send(control, {}, [tree])
        os.close(tree)


def _show_to(tree: int, reader: int) -> None:
    """Have a sandbox's user count as the folder's owner."""
    facts = os.fstat(tree)
    pid, pidfd = linux.clone(linux.CLONE_NEWUSER)
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        linux.write_file(f"/proc/{pid}/uid_map", f"{facts.st_uid} {reader} 1")
        linux.write_file(f"/proc/{pid}/gid_map", f"{facts.st_gid} {reader} 1")
        namespace = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            linux.map_ids(tree, namespace)
        finally:
            os.close(namespace)
    finally:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "power")
