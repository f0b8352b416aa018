"""From nothing to a pandas result on the wasm engine: a new sandbox, and the summary of a small table."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns, milliseconds
from benchmarks.ours import POOLED, SNAPSHOT, WASM, Belljar
from benchmarks.peers import pyodide
from benchmarks.rows.describe import CODE

EXPECTED = "mean"
SAME = f"{pyodide.NAME}, same imports"
SAME_CODE = f"import numpy, matplotlib.pyplot; {CODE}"  # what our snapshot has imported already
ROUNDS = 4  # at the most: plain Pyodide takes ten seconds for each


def measure(effort: Effort, stage: ExitStack) -> Row:
    """New sandbox to `describe()` result; plain Pyodide with what ours has imported, and with pandas alone."""
    pooled, fresh = (stage.enter_context(Belljar(pool_size, WASM)) for pool_size in (2, 0))
    entrants: list[Contestant | Figure] = [
        Contestant(POOLED, lambda: pooled.first_answer(CODE), True, Target(25, lead=(500, SAME)), 4),
        Contestant(SNAPSHOT, lambda: fresh.first_answer(CODE), True, Target(450, lead=(30, SAME)), 4),
    ]
    if why := pyodide.absent():
        entrants.append(Figure(pyodide.NAME, absent=why))
    else:
        plain = stage.enter_context(pyodide.prepared())
        entrants += [
            Contestant(SAME, lambda: milliseconds(lambda: plain.run(SAME_CODE, EXPECTED))),
            Contestant(pyodide.NAME, lambda: milliseconds(lambda: plain.run(CODE, EXPECTED))),
        ]
    few = replace(effort, rounds=min(effort.rounds, ROUNDS), discarded=1)
    return Row("wasm-describe", "wasm: new sandbox to DataFrame.describe() result", in_turns(entrants, few))
