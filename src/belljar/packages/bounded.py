"""Running a package client within bounds of time, size and memory; what it started ends with it."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from belljar.packages import pip
from belljar.packages.failure import InstallFailed
from belljar.packages.weight import weight

LOOK_S = 0.05
FILE_TOO_LARGE = 25  # the signal for it, where there is one
CLIENT_BYTES, COMPILER_BYTES = 2 << 30, 1 << 30  # of memory, for each process
WRITTEN_PER_BYTE = 4  # downloaded, unpacked to a cache, copied, and some room


@dataclass(frozen=True)
class Budget:
    """Until when, by the monotonic clock, and how many bytes installed packages may have."""

    until: float
    seconds: float
    most_bytes: int

    @classmethod
    def of(cls, seconds: float, most_bytes: int) -> Budget:
        """From now on."""
        return cls(time.monotonic() + seconds, seconds, most_bytes)

    def check_time(self) -> None:
        """Raise InstallFailed when it is over."""
        if time.monotonic() > self.until:
            raise InstallFailed(
                "too_slow", f"it took longer than the {self.seconds:.0f} s that an installation may take"
            )

    def check_size(self, size: int) -> None:
        """Raise InstallFailed when it is more."""
        if size > self.most_bytes:
            raise InstallFailed(
                "too_large", f"it is larger than the {self.most_bytes / 1e6:,.0f} MB that may be installed"
            )


def run(
    argv: Sequence[str], scratch: Path, env: Mapping[str, str], budget: Budget, grows: Path | None = None,
    memory_bytes: int = CLIENT_BYTES,
) -> tuple[int, str, str]:  # fmt: skip
    """Exit code, output and complaints of a client that works in `scratch`; `grows` is the folder that it fills.

    Raises:
        InstallFailed: when it went over the budget, and was ended.
    """
    with open(scratch / "out.log", "w+b") as out, open(scratch / "err.log", "w+b") as err:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=scratch, env=dict(env), start_new_session=True
        )
        try:
            _bound(process.pid, "RLIMIT_FSIZE", budget.most_bytes)  # no single file larger than everything may be
            bound_memory(process.pid, memory_bytes)
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_S)
                    break
                budget.check_time()
                budget.check_size(max(weight(grows) if grows else 0, _written(process.pid) // WRITTEN_PER_BYTE))
        finally:
            pip.end(process)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(re.sub(r"\x1b\[[0-9;]*m", "", file.read(4 << 20).decode("utf-8", "replace")))
    if process.returncode == -FILE_TOO_LARGE or (process.returncode and "File too large" in texts[0] + texts[1]):
        budget.check_size(budget.most_bytes + 1)
    return process.returncode, texts[0], texts[1]


def bound_memory(pid: int, most_bytes: int) -> None:
    """A process that somebody else's file could make grow fails instead; so does whatever it starts from now on."""
    _bound(pid, "RLIMIT_DATA", most_bytes)


def _bound(pid: int, limit: str, most: int) -> None:
    """Only Linux can be told from here."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, getattr(resource, limit), (most, most))


def _written(pid: int) -> int:
    """What a process has written so far, where the system tells."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("wchar")), 0)
    except (OSError, ValueError):
        return 0
