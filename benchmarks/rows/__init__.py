"""The rows of the table, in order: one module each, with `measure(effort, stage)`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.measure import Effort, Row
from benchmarks.rows import command, describe, live_run, memory, python, script, throughput

ROWS: dict[str, Callable[[Effort, ExitStack], Row]] = {
    "python": python.measure,
    "live-run": live_run.measure,
    "describe": describe.measure,
    "throughput": throughput.measure,
    "memory": memory.measure,
    "command": command.measure,
    "script": script.measure,
}
