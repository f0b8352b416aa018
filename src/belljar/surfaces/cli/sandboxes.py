"""`belljar sandboxes`: the durable sandboxes of this installation, live or asleep."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from belljar.errors import SandboxError
from belljar.surfaces.cli.wording import one_line

if TYPE_CHECKING:
    from argparse import Namespace

    from belljar.durable.overview import Overview

HEADS = ("ID", "STATE", "ENGINE", "AGE", "USED", "MEMORY", "CPU", "NAME")


def command(options: Namespace) -> int:
    """List them, show one, or close some."""
    from belljar import compose

    with compose.overview() as seen:
        if options.action == "list":
            _list(seen, options)
        elif options.action == "show":
            _show(seen, options)
        else:
            _close(seen, options.owner, options.ids)
    return 0


def _list(seen: Overview, options: Namespace) -> None:
    rows = seen.sandboxes(options.owner, options.all)
    if options.json:
        print(json.dumps(rows))
        return
    cells = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _show(seen: Overview, options: Namespace) -> None:
    row = seen.sandbox(options.owner, options.id, options.runs)
    if options.json:
        print(json.dumps(row))
        return
    runs, checkpoints = row.pop("runs"), row.pop("checkpoints")
    for name, value in row.items():
        if value not in (None, "", [], ()):
            shown = _ago(value) + " ago" if name in ("created", "last_used") else value
            print(f"{name.replace('_', ' ')}: {one_line(str(shown))}")
    for checkpoint in checkpoints:
        without = f", without {', '.join(checkpoint['skipped'])}" if checkpoint["skipped"] else ""
        print(
            f"checkpoint: after run {checkpoint['count']}, {checkpoint['size']:,} bytes, "
            f"{_ago(checkpoint['created'])} ago{one_line(without)}"
        )
    for run in runs:
        print(f"run {run['count']}: {run['status']}, {run['wall_s']:.3f} s: {one_line(run['code'])[:100]}")


def _close(seen: Overview, owner: str, ids: list[str]) -> None:
    """Each of them, whatever becomes of the others."""
    failures: list[SandboxError] = []
    for wanted in ids:
        try:
            print(f"closed {seen.close(owner, wanted)}")
        except SandboxError as failure:
            failures.append(failure)
    for each in failures[:-1]:
        print(f"belljar: {one_line(str(each))}", file=sys.stderr)
    if failures:
        raise failures[-1]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    usage = row["usage"] or {}
    memory = f"{usage['memory_bytes'] / (1 << 20):.0f} MB" if usage else "-"
    cpu = f"{usage['cpu_s']:.1f} s" if usage else "-"
    state = "running" if usage.get("is_busy") else row["state"]
    name = one_line(row["name"] or "")
    return row["id"], state, row["engine"], _ago(row["created"]), _ago(row["last_used"]), memory, cpu, name


def _ago(moment: float) -> str:
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
