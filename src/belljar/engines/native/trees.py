"""A folder as a tree of mounts that a keeper can attach: opened here, or by a helper where that takes power."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import belljar_jail
from belljar.engines.native import scope
from belljar.errors import StartFailed
from belljar_jail import linux, wire

ANSWER_S = 10

_lock = threading.Lock()
_helper: Helper | None = None


def tree_of(folder: Path, through_links: bool = True) -> int:
    """A descriptor of the folder, for a keeper of this host; whoever asked closes it.

    Raises:
        StartFailed: when this machine cannot do that.
    """
    try:
        return linux.open_tree(str(folder), through_links)
    except OSError as failure:
        if failure.errno != errno.EPERM:
            raise StartFailed(_failure(folder, failure)) from failure
    with _lock:
        return _helping().open(folder, through_links)


class Helper:
    """The process that opens trees for an ordinary user; it ends with this one."""

    def __init__(self) -> None:
        script = Path(belljar_jail.__file__).parent / "trees.py"
        self._control, theirs = wire.pair()
        self._control.settimeout(ANSWER_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(script), str(theirs.fileno())], pass_fds=[theirs.fileno()],
                cwd="/", env=scope.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    @property
    def is_up(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def open(self, folder: Path, through_links: bool) -> int:
        """The folder's tree."""
        try:
            wire.send(self._control, {"path": str(folder), "through_links": through_links})
            received = wire.receive(self._control, socket.MSG_CMSG_CLOEXEC)
        except OSError as failure:
            self.close()
            raise StartFailed(_failure(folder, failure)) from failure
        if received is None or not received[1]:
            said = received[0].get("error", "") if received else "the helper ended"
            raise StartFailed(_failure(folder, said))
        return received[1][0]

    def close(self) -> None:
        """End it."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def close() -> None:
    """End the helper, if there is one."""
    global _helper
    with _lock:
        if _helper is not None:
            _helper.close()
        _helper = None


def _failure(folder: Path, why: object) -> str:
    return f"{folder} cannot be shown to the sandbox: {why}"


def _helping() -> Helper:
    global _helper
    if _helper is None or not _helper.is_up:
        if _helper is not None:
            _helper.close()
        _helper = Helper()
    return _helper


def _forget_after_fork() -> None:
    """A forked child has a helper of its own, when it needs one."""
    global _helper, _lock
    _helper, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
