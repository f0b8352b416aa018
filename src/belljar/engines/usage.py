"""What a process of this user has used, as the system says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def used(pid: int) -> tuple[float, int] | None:
    """Processor time in seconds and resident memory in bytes; None where the system does not tell."""
    try:
        if os.path.exists("/proc/self/stat"):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        if os.name == "posix":
            command = ["ps", "-o", "cputime=,rss=", "-p", str(pid)]
            clock, rss = subprocess.run(command, capture_output=True, text=True, timeout=2).stdout.split()
            seconds = sum(float(part) * 60**power for power, part in enumerate(reversed(clock.split(":"))))
            return seconds, int(rss) * 1024
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None
    return None
