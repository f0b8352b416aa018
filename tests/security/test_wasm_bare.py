"""The wasm engine where there is no jail: Deno's permissions have to hold alone, and do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from belljar import Limits, Policy, Sandbox, compose
from belljar.engines.registry import Registry
from belljar.settings import Settings

SMALL = Limits(timeout_s=5, memory_mb=96, disk_mb=4)
ROWS = ("E09", "N29", "R01", "W01", "W02", "W03", "W04", "W06", "W07", "W10", "W15", "W16", "W18", "W22")
WITHOUT_A_JAIL = """
import sys
from belljar.attacks.__main__ import main
from belljar.engines.registry import Registry
Registry.confinement = lambda self: None
sys.exit(main("wasm", *sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def findings() -> dict[str, Any]:
    """What came of the attacks, by id."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_JAIL, *ROWS], capture_output=True, text=True, timeout=120
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox that has nothing but Deno around it."""
    monkeypatch.setattr(Registry, "confinement", lambda _: None)
    here = compose.LocalHost(replace(Settings.load(), pool_size=0))
    with compose.using(here), Sandbox("wasm", limits=SMALL, policy=Policy(packages="none")) as made:
        yield made
    here.close()


# Memory is looked at, not held, where there is no jail: on a busy machine a bomb gets further than the promise.
@pytest.mark.parametrize("row", [pytest.param(row, marks=[pytest.mark.long] if row == "W22" else []) for row in ROWS])
def test_attack_is_contained_by_permissions_alone(row: str, findings: dict[str, Any]):
    assert findings[row]["problems"] == []
    assert findings[row]["outcome"]


def test_a_temporary_table_writes_no_byte_to_a_folder_of_the_host(bare: Sandbox, tmp_path: Path):
    """SQLite's own files ask no permission; a process that may write no file is ended when it tries."""
    code = """
        const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
        const db = new DatabaseSync(":memory:");
        db.exec(`PRAGMA temp_store_directory = '${folder}'; PRAGMA temp_store = 1; PRAGMA cache_size = 1`);
        db.exec("CREATE TEMP TABLE t (x)");
        for (let i = 0; i < 99; i++) db.exec("INSERT INTO t VALUES (randomblob(99999))");
        return "spilled";
    """
    script = "from pyodide.code import run_js; run_js(_args[1])(_args[0])"
    execution = bare.run(script, args=[str(tmp_path), f"(folder) => {{ {code} }}"])
    assert execution.value != "spilled"
    assert bare.run("1 + 1").text == "2"
