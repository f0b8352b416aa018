"""`belljar attack`: hostile code against a real sandbox, and what came of each attempt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from belljar.surfaces.cli.wording import one_line

if TYPE_CHECKING:
    from argparse import Namespace

    from belljar.attacks.report import Finding, Report


def command(options: Namespace) -> int:
    """Attack the engine; fail when something was not contained."""
    from belljar.attacks import run

    report = run(options.engine, tell=_tell)
    _clear_line()
    if options.json:
        import json

        print(json.dumps(report.to_dict()))
    else:
        draw(report)
    return 0 if report.findings and report.contained else 1


def draw(report: Report) -> None:
    """The findings for people, those that got through last, where they are seen."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "attack", "came of it")
    for finding in sorted(report.findings, key=lambda each: not each.contained):
        told = Text(one_line(finding.outcome or "contained"), "green")
        if not finding.contained:
            told = Text(one_line("NOT CONTAINED: " + "; ".join(finding.problems)), "bold red")
        table.add_row(Text(finding.id), Text(one_line(finding.attack)), told)
    console = Console(file=sys.stdout, highlight=False)
    console.print(table)
    held = sum(finding.contained for finding in report.findings)
    console.print(f"{report.engine}: {held} of {len(report.findings)} attacks contained")


def _tell(finding: Finding) -> None:
    """Show on a terminal which attack was the last: some take seconds."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{finding.id} {one_line(finding.attack)[:70]}", end="", file=sys.stderr, flush=True)


def _clear_line() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
