"""A program as a child of this process, in a process group of its own: how it ends, and what it has used."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from belljar.engines.base import Exit, Sample
from belljar.engines.usage import used

HAS_WAITID = hasattr(os, "waitid")  # macOS has it from Python 3.13 on


class Child:
    """One process, and those of its group. `exit` is done when it has ended; it is reaped by then."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.loop = asyncio.get_running_loop()
        self.exit: asyncio.Future[Exit] = self.loop.create_future()
        self._process = process
        self._sample = Sample()
        threading.Thread(target=self._watch, name=f"belljar-child-{self.pid}", daemon=True).start()

    @classmethod
    def start(
        cls, argv: Sequence[str], env: Mapping[str, str], folder: Path, streams: Sequence[int], passed: Sequence[int]
    ) -> Child:
        """Start it with standard output and error on these descriptors, and with those that are passed on.

        Raises:
            OSError: when the system refuses.
        """
        out, err = streams
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=passed, env=env, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        return cls(process)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, also when the loop does not know it yet."""
        if self.exit.done() or not HAS_WAITID:
            return self.exit.done()
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def interrupt(self) -> None:
        """SIGINT to the process, SIGKILL to all others of its group."""
        if not self.exit.done():  # else its number may be that of another process by now
            os.kill(self.pid, signal.SIGINT)
            for pid in _members(self.pid) - {self.pid}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    async def kill(self) -> None:
        """SIGKILL to the group; returns when the process has ended."""
        if not self.exit.done():
            self._kill_group()
            await asyncio.wait((self.exit,))

    def sample(self) -> Sample:
        """Processor time, and the most memory that was seen at such a look."""
        if not self.exit.done() and (now := used(self.pid)) is not None:
            self._sample = Sample(now[0], max(now[1], self._sample.peak_memory_bytes))
        return self._sample

    def memory_bytes(self) -> int:
        """The memory that it has now, where the system says so."""
        now = None if self.exit.done() else used(self.pid)
        return now[1] if now is not None else 0

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: of a group that has only ended members
            os.killpg(self.pid, signal.SIGKILL)

    def _watch(self) -> None:
        """Wait for the end in a thread. The loop reaps the process, so that it never signals a number of another."""
        if HAS_WAITID:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        try:
            self.loop.call_soon_threadsafe(self._reap)
        except RuntimeError:  # the loop was closed meanwhile
            self._reap()

    def _reap(self) -> None:
        self._kill_group()
        code = self._process.wait()
        if not self.exit.done():
            self.exit.set_result(Exit(code=code) if code >= 0 else Exit(signal=-code))


def _members(group: int) -> set[int]:
    """The processes of a group."""
    if not os.path.exists("/proc/self/stat"):
        rows = subprocess.run(["ps", "-A", "-o", "pid=,pgid="], capture_output=True, text=True, timeout=5).stdout
        pairs = [line.split() for line in rows.splitlines()]
        return {int(pid) for pid, of in pairs if int(of) == group}
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[2]) == group:
                found.add(int(name))
    return found
