"""The benchmarks run and keep their figures. No time is asserted: that is what the figures are for."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns
from benchmarks.table import show
from rich.console import Console

ROOT = Path(__file__).parents[2]


def measured(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.engine
def test_a_quick_run_prints_a_table_and_keeps_every_figure_as_json(tmp_path: Path) -> None:
    printed = measured("--quick", "--only", "live-run", "--json", str(tmp_path / "figures.json"))
    kept: dict[str, Any] = json.loads((tmp_path / "figures.json").read_text())

    assert {"cpu", "cores", "kernel", "python", "load_before"} <= kept["machine"].keys()
    assert kept["quick"] is True
    (row,) = kept["rows"]
    assert (row["name"], row["unit"], row["better"]) == ("live-run", "ms", "lower")
    figures = {figure["name"]: figure for figure in row["figures"]}
    assert list(figures) == ["belljar", "ipykernel", "plain python"]
    assert figures["belljar"]["target"] == {"limit": 0.5, "times": None, "lead": None, "where": {"ipykernel": 5}}
    assert figures["belljar"]["times_to_reach"] == {"ipykernel": 10}
    for figure in figures.values():
        assert figure["absent"] or 0 < figure["p50"] <= figure["p90"]
        assert figure["absent"] or figure["name"] in printed
    peers = {name for name, figure in figures.items() if not figure["ours"] and not figure["absent"]}
    assert set(figures["belljar"]["times_better_than"]) == peers


def test_contestants_take_turns_and_the_first_rounds_do_not_count() -> None:
    turns: list[str] = []

    def take(name: str) -> float:
        turns.append(name)
        return float(len(turns))

    entrants = [
        Contestant("a", lambda: take("a"), per_round=2),
        Figure("c", absent="gone"),
        Contestant("b", lambda: take("b")),
    ]
    figures = in_turns(entrants, Effort(rounds=2, discarded=1, seconds=0, idle=0))
    assert "".join(turns) == "aabaabaab"
    assert [figure.values for figure in figures] == [(4.0, 5.0, 7.0, 8.0), (), (6.0, 9.0)]


@pytest.mark.parametrize(
    ("better", "target", "met"),
    [
        ("lower", Target(10), True),
        ("lower", Target(9), False),
        ("higher", Target(10), True),
        ("higher", Target(11), False),
        ("lower", Target(0.5, times="peer"), True),
        ("lower", Target(0.4, times="peer"), False),
        ("lower", Target(0.5, times="nobody"), None),
        ("lower", Target(10, lead=(2, "peer")), True),
        ("lower", Target(10, lead=(2.1, "peer")), False),
        ("lower", Target(9, lead=(2, "peer")), False),
        ("lower", Target(10, lead=(2, "nobody")), None),
        ("higher", Target(10, lead=(0.6, "peer")), False),
    ],
)
def test_a_target_is_a_limit_or_a_multiple_of_a_peer_and_may_ask_for_a_lead(
    better: Any, target: Target, met: bool | None
) -> None:
    ours = Figure("ours", (10.0,), ours=True, target=target)
    row = Row("row", "a row", (ours, Figure("peer", (20.0,))), better=better)
    assert row.is_met(ours) is met
    assert row.advantage(ours) == {"peer": 2.0 if better == "lower" else 0.5}


def test_a_limit_is_told_as_a_ratio_to_what_peers_reached_where_it_was_set() -> None:
    ours = Figure("ours", (10.0,), ours=True, target=Target(4, where={"peer": 6}))
    peer = Figure("peer", (20.0,))
    assert Row("row", "a row", (ours, peer)).ratios(ours) == {"peer": 1.5}
    assert Row("row", "a row", (ours, peer), better="higher").ratios(ours) == {"peer": 4 / 6}
    printed = io.StringIO()
    console = Console(file=printed, width=200)
    show(
        {"cpu": "", "cores": 1, "kernel": "", "python": "", "load_before": [0]}, [Row("r", "r", (ours, peer))], console
    )
    assert "2.00× faster than peer (to reach: 1.50×)" in printed.getvalue()
