"""`python -m benchmarks`: measure, print the table, keep the figures as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from belljar import SandboxError
from benchmarks import machine, table
from benchmarks.measure import FULL, QUICK, Effort, Row
from benchmarks.rows import ROWS

RESULTS = Path(__file__).parent / "results"


def main(argv: list[str] | None = None) -> int:
    """Measure what the arguments name."""
    options = _parser().parse_args(argv)
    facts = machine.facts()
    try:
        rows = _measure(options.only or list(ROWS), QUICK if options.quick else FULL)
    except SandboxError as failure:
        print(f"benchmarks: {failure}", file=sys.stderr)
        return 1
    path = options.json or RESULTS / f"{facts['time'].replace(':', '').removesuffix('+0000')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": facts, "quick": options.quick, "rows": [row.to_dict() for row in rows]}
    path.write_text(json.dumps(document, indent=1) + "\n")
    console = Console()
    table.show(facts, rows, console if console.is_terminal else Console(width=140))
    print(f"saved {path}")
    return 0


def _measure(names: list[str], effort: Effort) -> list[Row]:
    rows = []
    with Console(stderr=True).status("") as status:
        for name in names:
            status.update(f"resting before {name}")
            time.sleep(effort.rest_s)  # the kernel is still clearing away what the row before has left
            status.update(f"measuring {name}")
            with ExitStack() as stage:
                rows.append(ROWS[name](effort, stage))
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure Belljar against its peers, in one run.")
    parser.add_argument("--quick", action="store_true", help="few repetitions: shows that it works, not how fast")
    parser.add_argument("--only", action="append", choices=ROWS, metavar="NAME", help=f"repeatable: {', '.join(ROWS)}")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where the figures go (default: benchmarks/results)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
