"""The wasm rows are what they say: real sandboxes, and a plain Pyodide that really does the work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.measure import Effort
from benchmarks.ours import BARE, WASM, Belljar, checked
from benchmarks.peers import pyodide
from benchmarks.peers.wheels import Site
from benchmarks.rows import ROWS, wasm_live_run
from benchmarks.rows.describe import CODE
from benchmarks.rows.wasm_memory import denos
from tests.reliability.traces import eventually

ONCE = Effort(rounds=1, discarded=0, seconds=0, idle=1)


@pytest.fixture(scope="module")
def belljar() -> Iterator[Belljar]:
    with Belljar(0, WASM, BARE) as host:
        yield host


@pytest.fixture(scope="module")
def plain(belljar: Belljar) -> Iterator[pyodide.PlainPyodide]:
    with pyodide.prepared() as peer:
        yield peer


def test_a_first_answer_is_measured_and_a_failure_does_not_pass_for_one(belljar: Belljar) -> None:
    assert belljar.first_answer("2+2") > 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        belljar.first_answer("1/0")


def test_the_sandboxes_of_a_host_are_wasm_ones_and_each_is_a_deno_process(belljar: Belljar) -> None:
    before = denos(os.getpid())
    with belljar.create() as sandbox:
        assert checked(sandbox.run("6*7")).value == 42
        assert sandbox.engine == "wasm"
        assert len(denos(os.getpid()) - before) == 1
    assert denos(os.getpid()) == before


def test_only_denos_beneath_the_process_are_found(tmp_path: Path) -> None:
    sleeper = shutil.which("sleep")
    assert sleeper is not None
    shutil.copyfile(sleeper, tmp_path / "deno")
    (tmp_path / "deno").chmod(0o755)
    command = ["sh", "-c", f"{tmp_path}/deno 60 & echo $!; read line; kill $!"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        assert eventually(lambda: child in denos(os.getpid()))  # it is a shell until it has become another program
        assert denos(shell.pid) == {child}
        assert denos(child) == set()
        shell.stdin.write("\n")


@pytest.mark.long
def test_plain_pyodide_boots_and_answers(plain: pyodide.PlainPyodide) -> None:
    assert pyodide.absent() is None
    with plain.started("2+2", '^"4"$') as pid:
        assert pid in denos(os.getpid())
    assert pid not in denos(os.getpid())


@pytest.mark.long
def test_plain_pyodide_loads_pandas_from_wheels_and_describes_a_table(plain: pyodide.PlainPyodide) -> None:
    plain.run(CODE, "count.*mean.*max")


@pytest.mark.long
def test_a_wrong_answer_of_plain_pyodide_does_not_pass_for_a_slow_one(plain: pyodide.PlainPyodide) -> None:
    with pytest.raises(RuntimeError, match="4"):
        plain.run("2+2", "5")


def test_the_live_row_has_our_figure(belljar: Belljar) -> None:
    with ExitStack() as stage:
        row = wasm_live_run.measure(ONCE, stage)
    (ours,) = [figure for figure in row.figures if figure.ours]
    assert ROWS[row.name] is wasm_live_run.measure
    assert len(ours.values) == 10
    assert min(ours.values) > 0


def test_wheels_have_the_files_of_a_package_and_bring_what_it_needs(tmp_path: Path) -> None:
    site, wheels = tmp_path / "site", tmp_path / "wheels"
    wheels.mkdir()
    needs = ["Small.One>=1", "absent", "odd; extra == 'x'"]
    _install(site, "big_one", [f"Requires-Dist: {need}" for need in needs])
    _install(site, "small_one", [])
    _install(site, "odd", [])

    rows = Site(site).write_wheels(["big-one"], wheels)

    assert {name: (row["imports"], row["depends"]) for name, row in rows.items()} == {
        "big-one": (["big_one"], ["small-one"]),
        "small-one": (["small_one"], []),
    }
    assert sorted(path.name for path in wheels.iterdir()) == sorted(row["file_name"] for row in rows.values())
    with zipfile.ZipFile(wheels / rows["big-one"]["file_name"]) as archive:
        assert sorted(archive.namelist()) == [
            "big_one-1.0.dist-info/METADATA", "big_one-1.0.dist-info/RECORD", "big_one/__init__.py",
        ]  # fmt: skip
    json.dumps(rows)


def _install(site: Path, name: str, needs: list[str]) -> None:
    facts = site / f"{name}-1.0.dist-info"
    facts.mkdir(parents=True)
    (site / name).mkdir()
    (site / name / "__init__.py").write_text("")
    (facts / "METADATA").write_text("\n".join([f"Name: {name}", *needs]))
    dropped = f"{name}/tests/test_it.py"
    files = [f"{name}/__init__.py", f"{facts.name}/METADATA", f"{facts.name}/RECORD", dropped]
    (facts / "RECORD").write_text("".join(f"{file},,\n" for file in files))
