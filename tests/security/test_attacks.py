"""Every attack that `belljar attack` makes, as a test: made in a process of its own, so that what is left is the attack's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from belljar.attacks import CASES, Case

TIME_FOR_ALL_S = 300
ENGINES = ("native", "wasm")
LONG = {"native": [], "wasm": [pytest.mark.long]}  # a round on wasm takes minutes


def made_on(engine: str, request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """What came of the attacks that were chosen, by id, on one engine."""
    chosen = {
        item.callspec.params["case"].id
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "case" in item.callspec.params
        if isinstance(item.callspec.params["case"], Case) and item.callspec.params["engine"] == engine
    }
    if not chosen:
        return {"stderr": {"text": ""}}
    done = subprocess.run(
        [sys.executable, "-m", "belljar.attacks", engine, *sorted(chosen)],
        capture_output=True, text=True, timeout=TIME_FOR_ALL_S,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {"stderr": {"text": done.stderr}, **{row["id"]: row for row in rows}}


@pytest.fixture(scope="module")
def findings(native: None, request: pytest.FixtureRequest) -> Callable[[str], dict[str, dict[str, Any]]]:
    """What came of the attacks on an engine; they are made once, when first asked for."""
    return lru_cache(lambda engine: made_on(engine, request))


@pytest.mark.parametrize(
    ("engine", "case"),
    [
        pytest.param(engine, case, id=f"{engine}-{case.id}: {case.name}", marks=LONG[engine])
        for engine in ENGINES
        for case in CASES
        if engine in case.engines
    ],
)
def test_attack(engine: str, case: Case, findings: Callable[[str], dict[str, dict[str, Any]]]):
    finding = findings(engine)[case.id]
    assert finding["problems"] == []
    assert finding["outcome"]


@pytest.mark.parametrize("engine", [pytest.param(engine, marks=LONG[engine]) for engine in ENGINES])
def test_the_host_says_nothing_of_its_own_while_it_is_attacked(
    engine: str, findings: Callable[[str], dict[str, dict[str, Any]]]
):
    assert findings(engine)["stderr"]["text"][-2000:] == ""


def test_every_id_is_there_once():
    ids = [case.id for case in CASES]
    assert len(ids) == len(set(ids))


def test_every_case_says_on_which_engines_it_is_made():
    assert all(case.engines and case.engines <= set(ENGINES) for case in CASES)


def test_every_row_of_the_native_jail_has_its_attack():
    rows = {"01", "02", "03", "04", "06", "08", "09", "10", "13", "14", "16", "17", "18", "19", "20", "21", "22", "23",
            "24", "26", "27", "29", "31", "33", "34", "36", "37"}  # fmt: skip
    assert {f"N{row}" for row in rows} <= {case.id for case in CASES}


def test_every_row_of_the_bridge_has_its_attack_on_wasm():
    rows = {"W01", "W02", "W03", "W04", "W06", "W07", "W10", "W11", "W13", "W15", "W16", "W18", "W19", "W20", "W22", "W23",
            "N20", "N29", "N31", "N33", "N34", "R01", "F01", "F02", "F03", "F07", "F10", "E01", "E09", "P08"}  # fmt: skip
    assert rows <= {case.id for case in CASES if "wasm" in case.engines}
