"""Deno's compiled scripts are there under the names that jailed sandboxes have, and can be read where nothing can be written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests import probe

from belljar.engines.wasm import cache
from belljar.engines.wasm.assembly import INSIDE
from belljar.engines.wasm.deno import CACHE, find_deno
from belljar.engines.wasm.engine import WasmEngine


def test_the_scripts_are_in_it_under_the_path_inside(engine: WasmEngine):
    found = set()
    for path in (probe.runtime(engine).folder / CACHE).iterdir():
        if path.name.endswith(("-wal", "-shm")):
            continue
        database = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if any(column[1] == "specifier" for column in database.execute(f"PRAGMA table_info({table})")):
                found |= {row[0] for row in database.execute(f"SELECT specifier FROM {table}")}
        database.close()
    for script in ("control.js", "python.js", "pyodide.asm.mjs", "pyodide.mjs"):
        assert f"file://{INSIDE}/{script}" in found
    assert not [name for name in found if name.startswith("file://") and not name.startswith(f"file://{INSIDE}/")]


def test_the_log_of_every_database_is_empty_and_its_index_is_there(engine: WasmEngine):
    folder = probe.runtime(engine).folder / CACHE
    databases = [path for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]
    assert databases
    for path in databases:
        assert path.with_name(f"{path.name}-wal").stat().st_size == 0
        assert path.with_name(f"{path.name}-shm").stat().st_size > 0


def test_the_folder_of_the_machine_is_not_named_in_it(engine: WasmEngine):
    folder = probe.runtime(engine).folder
    databases = [path for path in (folder / CACHE).iterdir() if "analysis" in path.name]
    assert databases
    for path in databases:
        assert str(folder.parent).encode() not in path.read_bytes()


def test_a_snapshot_that_does_not_come_up_leaves_an_empty_folder_and_says_why(tmp_path: Path):
    (tmp_path / "control.js").write_text("throw new Error('no such luck');")
    with pytest.raises(cache.NotFilledError, match=r"snapshot base did not come up: .*no such luck"):
        cache.fill(find_deno(), tmp_path, INSIDE, ["base"])
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [CACHE]
    assert not any((tmp_path / CACHE).iterdir())


@pytest.mark.parametrize("name", ["plain", "user@corp (1)+a&b=c", "mit Leerzeichen; ä und %20"])
def test_names_of_any_folder_become_those_inside(tmp_path: Path, name: str):
    folder = booting_folder(tmp_path / name)
    cache.fill(find_deno(), folder, INSIDE, ["base"])
    assert any((folder / CACHE).iterdir())


def test_a_folder_whose_name_has_a_comma_leaves_an_empty_cache_and_says_why(tmp_path: Path):
    folder = booting_folder(tmp_path / "one, two")
    with pytest.raises(cache.NotFilledError, match="comma"):
        cache.fill(find_deno(), folder, INSIDE, ["base"])
    assert list((folder / CACHE).iterdir()) == []


def booting_folder(folder: Path) -> Path:
    """A runtime that says hello and does nothing else."""
    folder.mkdir()
    (folder / "control.js").write_text(
        "import './pyodide.asm.mjs'; Deno.stdout.writeSync(new TextEncoder().encode('....hello'.padEnd(64)));"
    )
    (folder / "pyodide.asm.mjs").write_text("export default 1;")
    return folder
