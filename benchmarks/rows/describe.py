"""From nothing to a pandas result: a new sandbox, and the summary of a small table."""

from __future__ import annotations

import time
from contextlib import ExitStack

from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns, milliseconds
from benchmarks.ours import FORKED, POOLED, Belljar
from benchmarks.peers import bwrap, ipykernel, plain

FRAME = "pd.DataFrame({'a': [1, 2, 3, 4], 'b': [0.5, 1.5, None, 3.5]}).describe()"
CODE = f"import pandas as pd; {FRAME}"
PEERS = {bwrap.NAME: 344, ipykernel.NAME: 1100}  # milliseconds, where the limits were set
PRINTED = f"import pandas as pd; print({FRAME})"


def measure(effort: Effort, stage: ExitStack) -> Row:
    """New sandbox to `describe()` result; how a sandbox ends is not part of it."""
    pooled, forked = (stage.enter_context(Belljar(pool_size)) for pool_size in (2, 0))
    entrants: list[Contestant | Figure] = [
        Contestant(POOLED, lambda: pooled.first_answer(CODE), True, Target(5, where=PEERS), 3),
        Contestant(FORKED, lambda: forked.first_answer(CODE), True, Target(12, where=PEERS), 3),
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


def _once_in_notebook() -> float:
    started = time.perf_counter()
    with ipykernel.notebook() as notebook:
        notebook.run(CODE)
        return (time.perf_counter() - started) * 1000
