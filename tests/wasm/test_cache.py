"""Deno's compiled scripts are there under the names that jailed sandboxes have, and can be read where nothing can be written."""

from __future__ import annotations

import sqlite3

import pytest

from belljar import Policy, Sandbox
from belljar.compose import LocalHost
from belljar.engines.wasm import cache
from belljar.engines.wasm.assembly import INSIDE
from belljar.engines.wasm.engine import WasmEngine


@pytest.fixture
def engine(host: LocalHost) -> WasmEngine:
    engine = host.host.registry.get("wasm")
    assert isinstance(engine, WasmEngine)
    engine.environment(Policy())
    return engine


def test_the_scripts_are_in_it_under_the_path_inside(engine: WasmEngine):
    assert engine._runtime is not None
    found = set()
    for path in (engine._runtime.folder / cache.FOLDER).iterdir():
        if path.name.endswith(("-wal", "-shm")):
            continue
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if any(column[1] == "specifier" for column in database.execute(f"PRAGMA table_info({table})")):
                found |= {row[0] for row in database.execute(f"SELECT specifier FROM {table}")}
        database.close()
    for script in ("control.js", "python.js", "pyodide.asm.mjs", "pyodide.mjs"):
        assert f"file://{INSIDE}/{script}" in found
    assert not [name for name in found if name.startswith("file://") and not name.startswith(f"file://{INSIDE}/")]


def test_the_log_of_every_database_is_empty_and_its_index_is_there(engine: WasmEngine):
    assert engine._runtime is not None
    folder = engine._runtime.folder / cache.FOLDER
    databases = [path for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))]
    assert databases
    for path in databases:
        assert path.with_name(f"{path.name}-wal").stat().st_size == 0
        assert path.with_name(f"{path.name}-shm").stat().st_size > 0


def test_names_that_are_not_exported_are_found_when_they_are_asked_for(wasm: Sandbox):
    ran = wasm.run("import ctypes\nask = ctypes.pythonapi.PyLong_AsLong\nask.argtypes = [ctypes.py_object]\nask(41)")
    assert ran.value == 41
    assert wasm.run("import ctypes\nctypes.pythonapi.no_such_name").error.name == "AttributeError"
