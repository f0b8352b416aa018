"""One small run in a wasm sandbox that is already there."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.measure import Contestant, Effort, Figure, Row, in_turns, milliseconds
from benchmarks.ours import WASM, Belljar, checked
from benchmarks.peers import ipykernel
from benchmarks.rows.live_run import CODE

WARM_UPS = 100  # V8 compiles again, and better, what is called often


def measure(effort: Effort, stage: ExitStack) -> Row:
    """`1+1`, from the call to its result."""
    sandbox = stage.enter_context(stage.enter_context(Belljar(0, WASM)).create())
    for _ in range(WARM_UPS):
        checked(sandbox.run(CODE))
    entrants: list[Contestant | Figure] = [
        Contestant("belljar", lambda: milliseconds(lambda: checked(sandbox.run(CODE))), True, per_round=10)
    ]
    if why := ipykernel.absent():
        entrants.append(Figure(ipykernel.NAME, absent=why))
    else:
        notebook = stage.enter_context(ipykernel.notebook())
        entrants.append(Contestant(ipykernel.NAME, lambda: milliseconds(lambda: notebook.run(CODE)), per_round=10))
    return Row("wasm-live-run", "wasm: run 1+1 in a live sandbox", in_turns(entrants, effort))
