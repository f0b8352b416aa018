import json
import sys
from argparse import Namespace
from types import ModuleType

import pytest

from belljar.attacks.report import Finding, Report
from belljar.surfaces.cli import attack


@pytest.fixture
def attacks(monkeypatch):
    """Stands in for the attacks, so that one of them can get through."""

    def install(*findings):
        def run(engine, tell):
            for finding in findings:
                tell(finding)
            return Report(engine, list(findings))

        module = ModuleType("belljar.attacks")
        module.run = run
        monkeypatch.setitem(sys.modules, "belljar.attacks", module)

    return install


def test_one_attack_that_gets_through_is_enough_to_fail(attacks, capsys):
    attacks(
        Finding("F01", "reads [bold]a file", "EACCES"), Finding("P02", "fork bomb", "", ["7 processes\x1b[2J left"])
    )
    assert attack.command(Namespace(engine="native", json=False)) == 1
    shown = capsys.readouterr().out
    assert "reads [bold]a file" in shown
    assert "NOT CONTAINED: 7 processes\\x1b[2J left" in shown
    assert "native: 1 of 2 attacks contained" in shown


def test_all_contained_is_success(attacks, capsys):
    attacks(Finding("P02", "fork bomb", "stopped"))
    assert attack.command(Namespace(engine="native", json=True)) == 0
    assert json.loads(capsys.readouterr().out)["contained"] is True


def test_no_attack_at_all_is_not_success(attacks):
    attacks()
    assert attack.command(Namespace(engine="native", json=True)) == 1
