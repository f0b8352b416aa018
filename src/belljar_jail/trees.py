"""Opens folders as trees for a host that may not do so itself: an ordinary user. Run as a script, never imported.

It has a mount namespace of its own, which is a copy of the host's, and power over nothing else.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from belljar_jail import linux, wire


def main(descriptor: int) -> None:
    """Answer each path with its tree, until the host goes away."""
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    control = socket.socket(fileno=descriptor)
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
    while received := wire.receive(control):
        try:
            tree = linux.open_tree(received[0]["path"], received[0]["through_links"])
        except OSError as failure:
            wire.send(control, {"error": str(failure)})
            continue
        wire.send(control, {}, [tree])
        os.close(tree)


if __name__ == "__main__":
    main(int(sys.argv[1]))
