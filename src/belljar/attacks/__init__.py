"""Hostile code against real sandboxes: the cases that `belljar attack` and the security tests share.

Each case runs its attack inside, and is judged outside: by the Execution, by canaries, by a bystander, by what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from belljar.attacks import (
    bombs,
    bridge,
    files,
    forgery,
    loading,
    network,
    processes,
    protocol,
    resources,
    system,
    workspace,
)
from belljar.attacks.case import Case
from belljar.attacks.report import Finding, Report, assault

_MODULES = (files, system, network, processes, resources, workspace, protocol, bridge, loading, bombs, forgery)
CASES: tuple[Case, ...] = tuple(case for module in _MODULES for case in module.attack.cases)


def run(engine: str = "auto", only: Collection[str] = (), tell: Callable[[Finding], None] | None = None) -> Report:
    """Make the attacks, all or those with the given ids, and report.

    Raises:
        EngineUnavailable: when there is no sandbox to attack.
    """
    return assault([case for case in CASES if not only or case.id in only], engine, tell)


__all__ = ["CASES", "Case", "Finding", "Report", "run"]
