"""One small run in a sandbox that is already there."""

from __future__ import annotations

from contextlib import ExitStack

from belljar import Sandbox
from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns, milliseconds
from benchmarks.ours import ENGINE, Belljar, checked
from benchmarks.peers import ipykernel, plain

CODE = "1+1"
LIMIT = Target(0.5, where={ipykernel.NAME: 5})
RUNS = 50  # one after the other, of whoever's turn it is: the first few of them find everything cold


def measure(effort: Effort, stage: ExitStack) -> Row:
    """`1+1`, from the call to its result."""
    belljar = stage.enter_context(Belljar(pool_size=0))
    with belljar.in_charge():
        sandbox = stage.enter_context(Sandbox(ENGINE))
    entrants: list[Contestant | Figure] = [
        Contestant("belljar", lambda: milliseconds(lambda: checked(sandbox.run(CODE))), True, LIMIT, RUNS)
    ]
    if why := ipykernel.absent():
        entrants.append(Figure(ipykernel.NAME, absent=why))
    else:
        notebook = stage.enter_context(ipykernel.notebook())
        entrants.append(Contestant(ipykernel.NAME, lambda: milliseconds(lambda: notebook.run(CODE)), per_round=RUNS))
    entrants.append(Contestant(plain.NAME, lambda: milliseconds(lambda: plain.run("-c", CODE))))
    return Row("live-run", "run 1+1 in a live sandbox", in_turns(entrants, effort))
