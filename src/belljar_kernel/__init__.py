# The rule of this package: it runs inside every sandbox, so it imports the standard library and itself, never `belljar`
# and never a third-party package (those it only looks up in `sys.modules`); `pickling` alone has one, which lies beside
# the kernel. Only `entry` does I/O on the channel.
"""The kernel: runs code like notebook cells and reports what happened. `docs/protocol.md` is its contract."""

from __future__ import annotations

import os

_digest: str | None = None


def digest() -> str:
    """The sha256 of this package's sources, by which a host knows its own kernel."""
    global _digest
    if _digest is None:
        import hashlib

        folder = os.path.dirname(os.path.abspath(__file__))
        sha = hashlib.sha256()
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    source = file.read()
                sha.update(b"%s %d\n" % (name.encode(), len(source)))
                sha.update(source)
        _digest = sha.hexdigest()
    return _digest
