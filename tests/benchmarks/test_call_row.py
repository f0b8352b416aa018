"""The row of calls out of a run has a figure of each engine."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.measure import Effort
from benchmarks.rows import ROWS, call
from tests import engines


def test_the_row_of_calls_has_both_engines() -> None:
    with ExitStack() as stage, engines.required():
        row = call.measure(Effort(rounds=1, discarded=0, seconds=0, idle=0), stage)
    assert ROWS[row.name] is call.measure
    assert [figure.name for figure in row.figures] == ["belljar", "belljar, wasm"]
    for figure in row.figures:
        assert figure.ours
        assert 0 < figure.p50 <= figure.p90
