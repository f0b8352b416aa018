"""The keeper behind a native sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from belljar import Sandbox
from belljar.engines.native.keeper import Keeper


def keeper_of(sandbox: Sandbox) -> Keeper:
    process: Any = sandbox._core._session.process
    return process.keeper


def pid_of(keeper: Keeper) -> int:
    """The pid on the host."""
    text = Path(f"/proc/self/fdinfo/{keeper.pidfd}").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pid:")))
