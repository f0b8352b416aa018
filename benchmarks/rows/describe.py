"""From nothing to a pandas result: a new sandbox, and the summary of a small table."""

from __future__ import annotations

import time
from contextlib import ExitStack

from belljar import Sandbox
from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns, milliseconds
from benchmarks.ours import ENGINE, FORKED, POOLED, Belljar, checked
from benchmarks.peers import bwrap, ipykernel, plain

FRAME = "pd.DataFrame({'a': [1, 2, 3, 4], 'b': [0.5, 1.5, None, 3.5]}).describe()"
CODE = f"import pandas as pd; {FRAME}"
PRINTED = f"import pandas as pd; print({FRAME})"
PAUSE_S = 0.02  # lets what the round before left behind come to its end


def measure(effort: Effort, stage: ExitStack) -> Row:
    """New sandbox to `describe()` result; how a sandbox ends is not part of it."""
    pooled, forked = (stage.enter_context(Belljar(pool_size)) for pool_size in (2, 0))
    entrants: list[Contestant | Figure] = [
        Contestant(POOLED, lambda: _once(pooled), True, Target(5), 3),
        Contestant(FORKED, lambda: _once(forked), True, Target(12), 3),
    ]
    if why := bwrap.absent():
        entrants.append(Figure(bwrap.NAME, absent=why))
    else:
        entrants.append(Contestant(bwrap.NAME, lambda: milliseconds(lambda: bwrap.run("-c", PRINTED))))
    entrants.append(Contestant(plain.NAME, lambda: milliseconds(lambda: plain.run("-c", PRINTED))))
    if why := ipykernel.absent():
        entrants.append(Figure(ipykernel.NAME, absent=why))
    else:
        entrants.append(Contestant(ipykernel.NAME, _once_in_notebook))
    return Row("describe", "new sandbox to DataFrame.describe() result", in_turns(entrants, effort))


def _once(belljar: Belljar) -> float:
    belljar.fill()
    time.sleep(PAUSE_S)
    with belljar.in_charge():
        started = time.perf_counter()
        with Sandbox(ENGINE) as sandbox:
            checked(sandbox.run(CODE))
            return (time.perf_counter() - started) * 1000


def _once_in_notebook() -> float:
    started = time.perf_counter()
    with ipykernel.notebook() as notebook:
        notebook.run(CODE)
        return (time.perf_counter() - started) * 1000
