"""The keeper behind a native sandbox."""

from __future__ import annotations

from tests import probe

from belljar import Sandbox
from belljar.engines.native.keeper import Keeper


def keeper_of(sandbox: Sandbox) -> Keeper:
    return probe.keeper(sandbox)


def pid_of(keeper: Keeper) -> int:
    """The pid on the host."""
    return probe.pid_of(keeper.pidfd)
