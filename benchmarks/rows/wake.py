"""A durable sandbox that sleeps: from the call of a run to its answer, with 1, 10 and 100 MB of state."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from belljar import Sandbox
from benchmarks.measure import Contestant, Effort, Figure, Row, in_turns, milliseconds
from benchmarks.ours import ENGINE, Belljar, checked
from benchmarks.rows.checkpoint import DATA, LIMITS, SIZES, few


def measure(effort: Effort, stage: ExitStack) -> Row:
    """Falling asleep is not part of it."""
    folder = Path(stage.enter_context(tempfile.TemporaryDirectory(prefix="belljar-bench-")))
    belljar = stage.enter_context(Belljar(0, state_dir=folder))
    entrants: list[Contestant | Figure] = []
    with belljar.in_charge():
        for size in SIZES:
            sandbox = Sandbox(ENGINE, limits=LIMITS, durable=True)
            stage.callback(sandbox.close)
            checked(sandbox.run(DATA.format(size=size)))
            entrants.append(Contestant(f"belljar, {size} MB", lambda sandbox=sandbox: _awake(sandbox), True))
    return Row("wake", "a run in a sandbox that sleeps", in_turns(entrants, few(effort)))


def _awake(sandbox: Sandbox) -> float:
    sandbox.hibernate()
    return milliseconds(lambda: checked(sandbox.run("assert len(data)")))
