"""A folder as a tree of mounts that a keeper can attach: opened here, or by a helper where that takes more."""

from __future__ import annotations

import errno
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


class Trees:
    """Opens folders for the sandboxes of one engine. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helpers: dict[bool, Helper] = {}  # by whether they have power

    def tree_of(self, folder: Path) -> int:
        """A descriptor of the folder, for a keeper of this engine. The caller closes it.

        Raises:
            StartFailed: when this machine cannot do that.
        """
        try:
            return linux.open_tree(str(folder))
        except OSError as failure:
            if failure.errno != errno.EPERM:
                raise StartFailed(_failure(folder, failure)) from failure
        with self._lock:
            return self._helper(has_power=False).open(folder)

    def tree_for(self, folder: Path, reader: int | None) -> int:
        """A descriptor of a folder that no link leads to, as its owner sees it, for a sandbox with this host id.

        A reader of None is a sandbox with the id of this process. The caller closes the descriptor.

        Raises:
            StartFailed: when this machine cannot do that.
        """
        with self._lock:
            return self._helper(has_power=reader is not None).open(folder, through_links=False, reader=reader)

    def close(self) -> None:
        """End the helpers, if there are any."""
        with self._lock:
            for helper in self._helpers.values():
                helper.close()
            self._helpers.clear()

    def _helper(self, has_power: bool) -> Helper:
        helper = self._helpers.get(has_power)
        if helper is None or not helper.is_up:
            if helper is not None:
                helper.close()
            helper = self._helpers[has_power] = Helper(has_power)
        return helper


class Helper:
    """The process that opens trees for us; it ends with this one."""

    def __init__(self, has_power: bool) -> None:
        script = Path(belljar_jail.__file__).parent / "trees.py"
        self._control, theirs = wire.pair()
        self._control.settimeout(ANSWER_S)
        with theirs:
            power = "power" if has_power else "none"
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(script), str(theirs.fileno()), power],
                pass_fds=[theirs.fileno()], cwd="/", env=scope.environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    @property
    def is_up(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def open(self, folder: Path, through_links: bool = True, reader: int | None = None) -> int:
        """The folder's tree."""
        try:
            wire.send(self._control, {"path": str(folder), "through_links": through_links, "reader": reader})
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


def _failure(folder: Path, why: object) -> str:
    return f"{folder} cannot be shown to the sandbox: {why}"
