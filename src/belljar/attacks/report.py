"""Runs the cases and tells what came of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from belljar.attacks.arena import Arena, descendants
from belljar.attacks.case import Case, Trial


@dataclass(frozen=True)
class Finding:
    """What came of one attack: contained unless there are problems."""

    id: str
    attack: str
    outcome: str
    problems: list[str] = field(default_factory=list)

    @property
    def contained(self) -> bool:
        """Whether nothing got out, and nothing else came to harm."""
        return not self.problems


@dataclass(frozen=True)
class Report:
    """All findings of one round."""

    engine: str
    findings: list[Finding]

    @property
    def contained(self) -> bool:
        """Whether every attack was."""
        return all(finding.contained for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        rows = [{**asdict(finding), "contained": finding.contained} for finding in self.findings]
        return {"engine": self.engine, "contained": self.contained, "attacks": rows}


def assault(cases: Iterable[Case], engine: str, tell: Callable[[Finding], None] | None = None) -> Report:
    """Make every attack, one after the other.

    Raises:
        EngineUnavailable: when there is no sandbox to attack.
    """
    arena = Arena(engine)
    findings = []
    try:
        engine = arena.bystander.engine
        for case in cases:
            if engine not in case.engines:
                continue
            findings.append(_alone(case, engine) if case.alone else _attempt(case, arena))
            if tell is not None:
                tell(findings[-1])
    finally:
        arena.close()
    return Report(engine, findings)


def _alone(case: Case, engine: str) -> Finding:
    arena = Arena(engine)
    try:
        return _attempt(case, arena)
    finally:
        arena.close()


def _attempt(case: Case, arena: Arena) -> Finding:
    others = frozenset(process.pid for process in descendants())
    sandbox = arena.sandbox(case.limits)
    trial = Trial(arena, sandbox, case.limits, others)
    outcome = ""
    try:
        outcome = case.attack(trial)
    except Exception as failure:
        trial.problems.append(f"raised {type(failure).__name__}: {str(failure)[:300]}")
    try:
        sandbox.close()
    except Exception as failure:
        trial.problems.append(f"close raised {type(failure).__name__}: {str(failure)[:300]}")
    trial.problems += arena.canaries.disturbed() + arena.runtime.changed()
    if not case.alone:
        trial.problems += arena.leftovers()
    return Finding(case.id, case.name, outcome, trial.problems)
