"""The embedded store: SQLite in WAL mode, so that others read while one writes; bytes of checkpoints beside it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from belljar.errors import SandboxError, StoreFailed
from belljar.limits import BOUNDS, Limits
from belljar.policy import Policy
from belljar.store.base import CheckpointRecord, RunRecord, SandboxRecord
from belljar.store.folder import CheckpointFolder
from belljar.store.migrations import STEPS

FILE = "store.sqlite"
BUSY_S = 10.0  # another process is writing

T = TypeVar("T")
logger = logging.getLogger("belljar")
# Connections to files that were removed. No store uses them, but closing one would remove the log of the file that took
# its place, so that they must outlive the stores that made them: they end with the process.
_abandoned: list[sqlite3.Connection] = []


class SqliteStore:
    """A Store in a folder. Not for two threads at once. Opened, and made, at its first use."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._bytes = CheckpointFolder(folder / "checkpoints")
        self._open: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None  # of the file that is open

    def add_sandbox(self, record: SandboxRecord) -> None:
        """Add the record of a new sandbox."""
        with self._writing() as db:
            _insert(db, "sandboxes", _row(record))

    def sandbox(self, id: str, owner: str | None = None) -> SandboxRecord | None:
        """The sandbox with this id, if it belongs to this owner."""
        rows = self._read("SELECT * FROM sandboxes WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)", id, owner)
        return _sandbox(rows[0]) if rows else None

    def sandboxes(self, owner: str | None = None, closed: bool = False) -> list[SandboxRecord]:
        """All sandboxes, or those of an owner, the newest first, without rows that make no sense."""
        rows = self._read(
            "SELECT * FROM sandboxes WHERE (?1 IS NULL OR owner = ?1) AND (?2 OR state != 'closed')"
            " ORDER BY created DESC", owner, closed,
        )  # fmt: skip
        found = []
        for row in rows:
            try:
                found.append(_sandbox(row))
            except StoreFailed as failure:  # one row that makes no sense does not cost the others
                logger.warning("%s", failure)
        return found

    def claim(self, id: str, host: str, former: str | None) -> bool:
        """Compare and swap the host of a sandbox."""
        with self._writing() as db:
            done = db.execute(
                "UPDATE sandboxes SET host = ?, state = 'live', reason = NULL"
                " WHERE id = ? AND host IS ? AND state != 'closed'",
                (host, id, former),
            )
            return done.rowcount == 1

    def update_sandbox(self, id: str, last_used: float, packages: tuple[str, ...]) -> None:
        """Write down what changes while a sandbox lives."""
        with self._writing() as db:
            values = (last_used, json.dumps(packages), id)
            db.execute("UPDATE sandboxes SET last_used = ?, packages = ? WHERE id = ?", values)

    def release(self, host: str, reason: str | None = None, id: str | None = None) -> list[str]:
        """Make what a host has live fall asleep."""
        with self._writing() as db:
            which = "WHERE host = ?1 AND state = 'live' AND (?2 IS NULL OR id = ?2)"
            rows = db.execute(f"SELECT id FROM sandboxes {which}", (host, id)).fetchall()
            db.execute(f"UPDATE sandboxes SET host = NULL, state = 'asleep', reason = ?3 {which}", (host, id, reason))
        return [row["id"] for row in rows]

    def close_sandbox(self, id: str, reason: str | None = None) -> None:
        """End a sandbox for good."""
        with self._writing() as db:
            db.execute("DELETE FROM checkpoints WHERE sandbox_id = ?", (id,))
            db.execute(
                "UPDATE sandboxes SET state = 'closed', host = NULL, reason = ?, last_used = ?"
                " WHERE id = ? AND state != 'closed'", (reason, time.time(), id),
            )  # fmt: skip
        self._bytes.delete(id)

    def remove_sandbox(self, id: str) -> None:
        """Remove a sandbox that did not start."""
        with self._writing() as db:
            db.execute("DELETE FROM sandboxes WHERE id = ?", (id,))

    def add_checkpoint(self, record: CheckpointRecord, data: bytes, keep: int) -> None:
        """The bytes first: a row never names what is not there."""
        self._bytes.write(record.sandbox_id, record.id, data)
        try:
            with self._writing() as db:
                _insert(db, "checkpoints", asdict(record) | {"skipped": json.dumps(record.skipped)})
                gone = db.execute(
                    "SELECT id FROM checkpoints WHERE sandbox_id = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?",
                    (record.sandbox_id, keep),
                ).fetchall()  # fmt: skip
                db.executemany("DELETE FROM checkpoints WHERE id = ?", [(row["id"],) for row in gone])
        except BaseException:
            self._bytes.delete(record.sandbox_id, record.id)
            raise
        for row in gone:
            self._bytes.delete(record.sandbox_id, row["id"])

    def confirm_checkpoint(self, id: str, count: int) -> None:
        """Note that a checkpoint is also the state after so many runs."""
        with self._writing() as db:
            db.execute("UPDATE checkpoints SET count = ? WHERE id = ?", (count, id))

    def checkpoints(self, sandbox_id: str) -> list[CheckpointRecord]:
        """Those of a sandbox, the newest first."""
        # By when they came, not by what the clock said then: that may have been put back.
        rows = self._read("SELECT * FROM checkpoints WHERE sandbox_id = ? ORDER BY rowid DESC", sandbox_id)
        return [_made(CheckpointRecord, row | {"skipped": _parsed(row, "skipped")}) for row in rows]

    def read_checkpoint(self, record: CheckpointRecord) -> bytes:
        """Its bytes, as they are."""
        return self._bytes.read(record.sandbox_id, record.id)

    def add_run(self, record: RunRecord, keep: int) -> None:
        """Add one, and remove the oldest."""
        texts = {"summary": json.dumps(record.summary), "denials": json.dumps(record.denials)}
        with self._writing() as db:
            _insert(db, "runs", asdict(record) | texts)
            db.execute(
                "DELETE FROM runs WHERE sandbox_id = ?1 AND number <= (SELECT number FROM runs WHERE sandbox_id = ?1"
                " ORDER BY number DESC LIMIT 1 OFFSET ?2)", (record.sandbox_id, keep),
            )  # fmt: skip

    def runs(self, sandbox_id: str, limit: int) -> list[RunRecord]:
        """The last ones, the newest first."""
        rows = self._read("SELECT * FROM runs WHERE sandbox_id = ? ORDER BY number DESC LIMIT ?", sandbox_id, limit)
        found = []
        for row in rows:
            del row["number"]
            found.append(_made(RunRecord, row | {name: _parsed(row, name) for name in ("summary", "denials")}))
        return found

    def prune(self, closed_before: float) -> None:
        """Forget what was closed before that time, and bytes that no row names any more."""
        with self._writing() as db:
            db.execute("DELETE FROM sandboxes WHERE state = 'closed' AND last_used < ?", (closed_before,))
            known = {row["id"] for row in db.execute("SELECT id FROM checkpoints")}
        self._bytes.prune(known)

    def close(self) -> None:
        """Let go of the file."""
        connection, self._open = self._open, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _read(self, statement: str, *values: object) -> list[dict[str, Any]]:
        with self._translated():
            try:
                return [dict(row) for row in self._connection().execute(statement, values)]
            except UnicodeEncodeError:  # half of a surrogate pair, which no stored text has
                return []

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing."""
        with self._translated():
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """After a failure the file is opened anew, so that it works again as soon as the cause is gone."""
        try:
            yield
        except sqlite3.IntegrityError as failure:
            raise StoreFailed(f"the store refused a row: {failure}") from failure
        except (sqlite3.Error, OSError) as failure:
            self.close()
            raise StoreFailed(_explained(self.path, failure)) from failure

    def _connection(self) -> sqlite3.Connection:
        if self._open is not None and self._identity != _identity(
            self.path
        ):  # no process will read what is written there
            _abandoned.append(self._open)
            self._open = None
        if self._open is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # else SQLite would let others read it
            # Autocommit: transactions are begun and ended here. Threads use it in turns, never two at once.
            db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")  # no process's end loses a commit; one of the machine may
                db.execute("PRAGMA foreign_keys = ON")
                _migrate(db, self.path)
            except BaseException:
                db.close()
                raise
            self._open, self._identity = db, _identity(self.path)
        return self._open


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Take the steps that this file has not seen.

    Raises:
        StoreFailed: when a later Belljar made it.
    """
    if db.execute("PRAGMA user_version").fetchone()[0] == len(STEPS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]  # again: another process may have been faster
        if version > len(STEPS):
            raise StoreFailed(
                f"the store {path} was made by a later Belljar (version {version}, this one knows {len(STEPS)}); "
                "use that one, or set BELLJAR_STATE_DIR to another folder"
            )
        for step in STEPS[version:]:
            for statement in step:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(STEPS)}")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))


def _row(record: SandboxRecord) -> dict[str, Any]:
    policy = {
        "network": list(record.policy.network),
        "packages": record.policy.packages if isinstance(record.policy.packages, str) else list(record.policy.packages),
        "mounts": {place: os.fspath(folder) for place, folder in record.policy.mounts.items()},
    }
    plain = {field.name: getattr(record, field.name) for field in fields(record)}
    texts = {"packages": json.dumps(record.packages), "limits": json.dumps(asdict(record.limits))}
    return plain | texts | {"policy": json.dumps(policy)}


def _sandbox(row: dict[str, Any]) -> SandboxRecord:
    limits, policy, packages = (_parsed(row, name) for name in ("limits", "policy", "packages"))
    try:
        known = {name: value for name, value in limits.items() if name in BOUNDS}
        made = {"packages": tuple(packages), "limits": Limits(**known), "policy": Policy(**policy)}
    except (SandboxError, AttributeError, TypeError, ValueError) as failure:
        raise _senseless(row, failure) from failure
    return _made(SandboxRecord, row | made)


def _made(kind: Callable[..., T], row: dict[str, Any]) -> T:
    try:
        return kind(**row)
    except TypeError as failure:
        raise _senseless(row, failure) from failure


def _parsed(row: dict[str, Any], name: str) -> Any:
    try:
        return json.loads(row[name])
    except (KeyError, TypeError, ValueError, RecursionError) as failure:
        raise _senseless(row, failure) from failure


def _senseless(row: dict[str, Any], failure: Exception) -> StoreFailed:
    whose = row.get("sandbox_id", row.get("id"))
    return StoreFailed(f"a row of sandbox {whose!r} in the store makes no sense: {failure}")


def _explained(path: Path, failure: Exception) -> str:
    """What happened, why, and what to do."""
    text = str(failure)
    if "malformed" in text or "not a database" in text:
        return (
            f"the store {path} is damaged ({text}); put a copy back, or move it away and lose the list of durable "
            "sandboxes. Sandboxes that are not durable are not concerned"
        )
    full = "full" in text or "I/O" in text or isinstance(failure, OSError)
    todo = "make room there, or set BELLJAR_STATE_DIR to another disk" if full else "try again"
    return f"the store {path} could not be used ({text}), and nothing in it was changed; {todo}"
