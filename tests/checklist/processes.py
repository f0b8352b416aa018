"""Processes of this machine that carry a marker among their words; how tests see from outside what a sandbox left."""

from __future__ import annotations

import time
from pathlib import Path


def host_processes(marker: str) -> list[str]:
    """The command lines of processes on this machine that carry the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = entry.joinpath("cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            except OSError:
                continue
            if marker in words:
                found.append(" ".join(words))
    return found


def wait_until_gone(marker: str, seconds: float = 5) -> list[str]:
    """Those that are still there after so many seconds."""
    deadline = time.monotonic() + seconds
    while (found := host_processes(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
