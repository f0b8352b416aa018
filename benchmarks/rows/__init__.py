"""The rows of the table, in order: a module has one or two, as `measure(effort, stage)`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.measure import Effort, Row
from benchmarks.rows import (
    call,
    checkpoint,
    command,
    describe,
    egress,
    fork,
    live_run,
    memory,
    packages,
    pandas,
    python,
    script,
    throughput,
    wake,
    wasm_describe,
    wasm_egress,
    wasm_live_run,
    wasm_memory,
    wasm_start,
)

ROWS: dict[str, Callable[[Effort, ExitStack], Row]] = {
    "python": python.measure,
    "live-run": live_run.measure,
    "call": call.measure,
    "describe": describe.measure,
    "throughput": throughput.measure,
    "memory": memory.measure,
    "command": command.measure,
    "script": script.measure,
    "packages": packages.measure,
    "pandas": pandas.measure,
    "egress": egress.measure,
    "checkpoint": checkpoint.measure_checkpoint,
    "restore": checkpoint.measure_restore,
    "fork": fork.measure,
    "fork-memory": fork.measure_memory,
    "wake": wake.measure,
    "wasm-start": wasm_start.measure,
    "wasm-describe": wasm_describe.measure,
    "wasm-live-run": wasm_live_run.measure,
    "wasm-egress": wasm_egress.measure,
    "wasm-memory": wasm_memory.measure_bare,
    "wasm-memory-pandas": wasm_memory.measure_science,
}
