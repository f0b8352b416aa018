"""The machine that the figures are of: without it they mean nothing."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any

import belljar
from belljar import compose


def facts() -> dict[str, Any]:
    """Processor, cores, memory, kernel, versions, and how busy it was before."""
    packages = dict(row.split("==") for row in compose.base_environment("native").packages)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "belljar": belljar.__version__,
        "pandas": packages.get("pandas"),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as rows:
            found = next((row.partition(":")[2].strip() for row in rows if row.startswith("model name")), "")
    except OSError:
        found = ""
    return found or platform.processor() or platform.machine()
