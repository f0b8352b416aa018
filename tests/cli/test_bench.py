from argparse import Namespace
from pathlib import Path

import pytest

from belljar.errors import InvalidRequest
from belljar.surfaces.cli import bench


def test_the_benchmarks_of_the_checkout_are_found_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert bench.find_checkout() == Path(__file__).resolve().parents[2]


def test_benchmarks_are_run_in_the_checkout_with_the_options_passed_on(monkeypatch):
    called = []
    monkeypatch.setattr(
        bench.subprocess, "call", lambda command, env: called.append((command[1:], env["PYTHONPATH"])) or 3
    )
    assert bench.command(Namespace(arguments=["--quick"])) == 3
    assert called == [(["-m", "benchmarks", "--quick"], str(bench.find_checkout()))]


def test_an_installation_without_benchmarks_says_so(monkeypatch):
    monkeypatch.setattr(bench, "find_checkout", lambda: None)
    with pytest.raises(InvalidRequest, match="run this from a checkout"):
        bench.command(None)
