"""Deno's cache of compiled scripts: filled once, when the runtime is assembled, and only read by jailed sandboxes.

Compiling Pyodide's scripts, and searching them for imports, is a fifth of a start.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from belljar.engines.wasm.deno import CACHE, ENVIRONMENT, sandbox_command
from belljar.errors import StartFailed
from belljar.limits import Limits

START_TIMEOUT_S = 60
LEAST_HELLO = 40  # bytes: the length of the first frame, and the type that it begins with
DATABASE = b"SQLite format 3\0"
FIRST_SCRIPT, LARGEST_SCRIPT = "control.js", "pyodide.asm.mjs"


class NotFilledError(Exception):
    """Why there is no cache. Sandboxes do without."""


def fill(deno: Path, folder: Path, inside: str, snapshots: Iterable[str]) -> None:
    """Start every snapshot once, and keep what Deno compiled for it under the paths that sandboxes will have.

    V8 takes compiled code only when it runs with the same flags, one of which is the memory limit: the default's.

    Raises:
        NotFilledError: when that does not work. An empty folder is left.
    """
    import sqlite3  # no sandbox needs it

    kept = folder / CACHE
    kept.mkdir()
    try:
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as written:
            for snapshot in snapshots:
                _start_once(deno, folder, Path(written), snapshot)
            names = set()
            for path in Path(written).iterdir():
                if path.is_file() and path.read_bytes()[: len(DATABASE)] == DATABASE:
                    names |= _keep(path, kept / path.name, inside)
        if f"file://{inside}/{LARGEST_SCRIPT}" not in names:
            raise NotFilledError("Deno did not keep the scripts that it compiled")
    except (OSError, sqlite3.Error, StartFailed, NotFilledError) as failure:
        shutil.rmtree(kept)
        kept.mkdir()
        raise NotFilledError(f"scripts are compiled anew at every start: {failure}") from failure


def _start_once(deno: Path, folder: Path, written: Path, snapshot: str) -> None:
    options = {"snapshot": snapshot, "packages": True, "diskBytes": 0, "mounts": []}
    command = sandbox_command(str(deno), str(folder), Limits().memory_mb, options, is_cached=True)
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            env={**ENVIRONMENT, "DENO_DIR": str(written)},
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        deadline = threading.Timer(START_TIMEOUT_S, process.kill)
        deadline.start()
        is_up = b"hello" in process.stdout.read(LEAST_HELLO)
        process.stdin.close()  # it ends when that does
        process.wait()
        deadline.cancel()
        if not is_up:
            said.seek(0)
            words = " ".join(said.read().decode(errors="replace").split())[-400:]
            raise NotFilledError(f"snapshot {snapshot} did not come up: {words}")


def _keep(source: Path, target: Path, inside: str) -> set[str]:
    """Copy a database so that SQLite opens it where nothing can be written: with an empty log, and with its index.

    Returns the names in it, which are under the path inside now.
    """
    import sqlite3

    names: set[str] = set()
    database = sqlite3.connect(source)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if "specifier" in [column[1] for column in database.execute(f"PRAGMA table_info({table})")]:
                names |= _rename(database, table, inside)
        database.commit()
        database.execute("VACUUM")  # or what was renamed would still be in it
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        for suffix in ("", "-wal", "-shm"):
            shutil.copyfile(f"{source}{suffix}", f"{target}{suffix}")
    finally:
        database.close()
    return names


def _rename(database: Any, table: str, inside: str) -> set[str]:
    """Put the path inside in place of the folder's, which Deno writes in a way of its own."""
    names = [row[0] for row in database.execute(f"SELECT specifier FROM {table}")]
    folder = next((name.removesuffix(FIRST_SCRIPT) for name in names if name.endswith(f"/{FIRST_SCRIPT}")), None)
    if folder is None:
        return set()
    database.execute(f"UPDATE {table} SET specifier = replace(specifier, ?, ?)", (folder, f"file://{inside}/"))
    return {name.replace(folder, f"file://{inside}/") for name in names}
