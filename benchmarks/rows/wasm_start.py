"""From nothing to the first answer on the wasm engine: a new sandbox, and `2+2`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns, milliseconds
from benchmarks.ours import BARE, POOLED, SNAPSHOT, WASM, Belljar
from benchmarks.peers import pyodide

CODE, EXPECTED = "2+2", "4"
ROUNDS = 5  # at the most: plain Pyodide takes seconds for each


def measure(effort: Effort, stage: ExitStack) -> Row:
    """New sandbox to the result of `2+2`, by default and with Python alone."""
    pooled = stage.enter_context(Belljar(2, WASM))
    default = stage.enter_context(Belljar(0, WASM))
    bare = stage.enter_context(Belljar(0, WASM, BARE))
    entrants: list[Contestant | Figure] = [
        Contestant(POOLED, lambda: pooled.first_answer(CODE), True, Target(10, lead=(300, pyodide.NAME)), 3),
        Contestant(SNAPSHOT, lambda: default.first_answer(CODE), True, per_round=3),
        Contestant(
            f"{SNAPSHOT}, no packages", lambda: bare.first_answer(CODE), True, Target(300, lead=(10, pyodide.NAME)), 3
        ),
    ]
    if why := pyodide.absent():
        entrants.append(Figure(pyodide.NAME, absent=why))
    else:
        plain = stage.enter_context(pyodide.prepared())
        entrants.append(Contestant(pyodide.NAME, lambda: milliseconds(lambda: plain.run(CODE, EXPECTED))))
    few = replace(effort, rounds=min(effort.rounds, ROUNDS), discarded=1)
    return Row("wasm-start", "wasm: new sandbox to the result of 2+2", in_turns(entrants, few))
