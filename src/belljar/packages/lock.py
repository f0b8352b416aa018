"""A lock between processes that ends with its holder, on every platform; nothing is left to go stale."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def try_to_hold(descriptor: int) -> bool:
        """Whether an open file could be locked at once."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def try_to_share(descriptor: int) -> bool:
        """There is no such lock here; a file that is open cannot be removed either."""
        return descriptor >= 0

else:
    import fcntl

    def try_to_hold(descriptor: int) -> bool:
        """Whether an open file could be locked at once."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def try_to_share(descriptor: int) -> bool:
        """Whether an open file could be locked at once, together with others that share it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def alone(lock: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """One process works, the others wait for it; `waiting` is called once when there is somebody to wait for."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "a+b") as file:
        if not try_to_hold(file.fileno()):
            if waiting is not None:
                waiting()
            while not try_to_hold(file.fileno()):
                time.sleep(0.05)
        yield
