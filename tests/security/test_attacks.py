"""Every attack that `belljar attack` makes, as a test: made in a process of its own, so that what is left is the attack's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from belljar.attacks import CASES, Case

TIME_FOR_ALL_S = 150


@pytest.fixture(scope="module")
def findings(native: None, request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """What came of the attacks that were chosen, by id."""
    chosen = {
        item.callspec.params["case"].id
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "case" in item.callspec.params
        if isinstance(item.callspec.params["case"], Case)
    }
    done = subprocess.run(
        [sys.executable, "-m", "belljar.attacks", *sorted(chosen)],
        capture_output=True, text=True, timeout=TIME_FOR_ALL_S,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {"stderr": {"text": done.stderr}, **{row["id"]: row for row in rows}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.id}: {case.name}")
def test_attack(case: Case, findings: dict[str, dict[str, Any]]):
    finding = findings[case.id]
    assert finding["problems"] == []
    assert finding["outcome"]


def test_the_host_says_nothing_of_its_own_while_it_is_attacked(findings: dict[str, dict[str, Any]]):
    assert findings["stderr"]["text"][-2000:] == ""


def test_every_id_is_there_once():
    ids = [case.id for case in CASES]
    assert len(ids) == len(set(ids))


def test_every_row_of_the_native_jail_has_its_attack():
    rows = {"01", "02", "03", "04", "06", "08", "09", "10", "13", "14", "16", "17", "18", "19", "20", "21", "22", "23",
            "24", "26", "27", "29", "31", "33", "34", "36", "37"}  # fmt: skip
    assert {f"N{row}" for row in rows} <= {case.id for case in CASES}
