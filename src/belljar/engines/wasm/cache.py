"""Deno's cache of compiled scripts: filled once, when the runtime is assembled, and only read by sandboxes.

Compiling Pyodide's scripts, and searching them for imports, is a fifth of a start.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from belljar.engines.wasm.deno import ENVIRONMENT, sandbox_command
from belljar.errors import StartFailed
from belljar.limits import Limits

FOLDER = "deno"  # in the runtime's
START_TIMEOUT_S = 60
LEAST_HELLO = 40  # bytes: the length of the first frame, and the type that it begins with
DATABASE = b"SQLite format 3\0"


def fill(deno: Path, folder: Path, inside: str, snapshots: Iterable[str]) -> None:
    """Start every snapshot once, and keep what Deno compiled for it under the paths that sandboxes will have.

    V8 takes compiled code only when it runs with the same flags, one of which is the memory limit: the default's.

    Raises:
        StartFailed: when a snapshot does not come up.
    """
    (folder / FOLDER).mkdir()
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as written:
        for snapshot in snapshots:
            _start_once(deno, folder, Path(written), snapshot)
        for path in Path(written).iterdir():
            if path.is_file() and path.read_bytes()[: len(DATABASE)] == DATABASE:
                _keep(path, folder / FOLDER / path.name, f"{folder.as_uri()}/", f"file://{inside}/")


def _start_once(deno: Path, folder: Path, written: Path, snapshot: str) -> None:
    options = {"snapshot": snapshot, "packages": True, "diskBytes": 0, "mounts": []}
    command = sandbox_command(str(deno), str(folder), Limits().memory_mb, options, is_cached=True)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**ENVIRONMENT, "DENO_DIR": str(written)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        deadline = threading.Timer(START_TIMEOUT_S, process.kill)
        deadline.start()
        is_up = b"hello" in process.stdout.read(LEAST_HELLO)
        deadline.cancel()
    if not is_up:
        raise StartFailed(f"the WebAssembly runtime could not be prepared: snapshot {snapshot} does not come up")


def _keep(source: Path, target: Path, old: str, new: str) -> None:
    """Copy a database so that SQLite opens it where nothing can be written: with an empty log, and with its index."""
    database = sqlite3.connect(source)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if "specifier" in [column[1] for column in database.execute(f"PRAGMA table_info({table})")]:
                database.execute(f"UPDATE {table} SET specifier = replace(specifier, ?, ?)", (old, new))
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        for suffix in ("", "-wal", "-shm"):
            shutil.copyfile(f"{source}{suffix}", f"{target}{suffix}")
    finally:
        database.close()
