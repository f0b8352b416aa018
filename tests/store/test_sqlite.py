"""The embedded store: what goes in comes out, full disks and torn files are refused, and others may look meanwhile."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests import probe
from tests.store.rows import checkpoint, run, sandbox

from belljar import StoreFailed
from belljar.store.base import CheckpointRecord, SandboxRecord
from belljar.store.migrations import STEPS
from belljar.store.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "state")
    yield opened
    opened.close()


def fill(store: SqliteStore, record: SandboxRecord) -> None:
    for number in range(1000):
        store.add_run(replace(run(record, number), code="x" * 2000), keep=1000)


def use(store: SqliteStore, record: SandboxRecord) -> None:
    store.sandboxes()
    store.runs(record.id, 100)
    store.add_run(run(record, 1), keep=3)


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """A disk that is full, as far as this process can tell: no file can grow beyond this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_nothing_is_made_before_it_is_needed_and_nobody_else_may_read_it(store: SqliteStore):
    assert not store.path.parent.exists()
    record = sandbox()
    store.add_sandbox(record)
    store.add_checkpoint(checkpoint(record), b"x", keep=1)
    readable = [
        path for path in store.path.parent.rglob("*") if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert readable == []


def test_old_checkpoints_and_runs_make_room_for_new_ones(store: SqliteStore):
    record = sandbox()
    store.add_sandbox(record)
    saved = [checkpoint(record, created=float(number), count=number) for number in range(5)]
    for number, each in enumerate(saved):
        store.add_checkpoint(each, b"x" * number, keep=2)
        store.add_run(run(record, number), keep=3)
    assert store.checkpoints(record.id) == [saved[4], saved[3]]
    assert len(list((store.path.parent / "checkpoints" / record.id).iterdir())) == 2
    assert [each.count for each in store.runs(record.id, 100)] == [4, 3, 2]
    store.confirm_checkpoint(saved[4].id, 9)
    assert store.checkpoints(record.id)[0].count == 9


def test_what_is_closed_loses_its_bytes_at_once_and_its_row_later(store: SqliteStore):
    record = sandbox()
    store.add_sandbox(record)
    store.add_checkpoint(checkpoint(record), b"x", keep=2)
    store.add_run(run(record, 1), keep=3)
    store.close_sandbox(record.id)
    assert not (store.path.parent / "checkpoints" / record.id).exists()
    store.prune(time.time() - 60)
    assert store.sandbox(record.id).state == "closed"
    store.prune(time.time() + 60)
    assert (store.sandbox(record.id), store.runs(record.id, 5)) == (None, [])


def test_a_full_disk_refuses_what_is_new_and_loses_nothing_else(store: SqliteStore):
    record = sandbox()
    store.add_sandbox(record)
    before = checkpoint(record)
    store.add_checkpoint(before, b"good", keep=1)
    with files_at_most(100_000):
        with pytest.raises(StoreFailed, match=r"could not be written.*kept.*BELLJAR_STATE_DIR"):
            store.add_checkpoint(checkpoint(record), bytes(1 << 20), keep=1)
        with pytest.raises(StoreFailed, match="nothing in it was changed"):
            fill(store, record)
    written = len(store.runs(record.id, 1000))
    assert 0 < written < 1000
    assert store.checkpoints(record.id) == [before]
    assert store.read_checkpoint(before) == b"good"
    assert len(list((store.path.parent / "checkpoints" / record.id).iterdir())) == 1
    store.add_run(run(record, 1), keep=1000)  # there is room again: the same store goes on
    assert len(store.runs(record.id, 1000)) == written + 1


def test_a_checkpoint_whose_row_cannot_be_written_leaves_no_bytes(store: SqliteStore):
    stranger = sandbox()
    store.sandboxes()
    with pytest.raises(StoreFailed):
        store.add_checkpoint(checkpoint(stranger), b"x", keep=1)
    assert list((store.path.parent / "checkpoints").rglob("*")) == [store.path.parent / "checkpoints" / stranger.id]


def test_a_log_that_was_cut_off_loses_the_last_writes_only(store: SqliteStore, tmp_path: Path):
    record = sandbox()
    store.add_sandbox(record)
    for number in range(20):
        store.add_run(run(record, number), keep=100)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in store.path.parent.glob("store.sqlite*"):
        (copy / path.name).write_bytes(path.read_bytes())
    log = copy / "store.sqlite-wal"
    (copy / "store.sqlite-shm").unlink()
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 3 // 4 + 11])
    other = SqliteStore(copy)
    counts = [each.count for each in other.runs(record.id, 100)]
    assert 0 < len(counts) < 20
    assert counts == list(range(len(counts)))[::-1]
    other.add_run(run(record, 99), keep=100)
    other.close()


@pytest.mark.parametrize("size", [10, 5000])
def test_a_torn_file_is_refused_by_name_and_left_as_it_is(store: SqliteStore, size: int):
    record = sandbox()
    store.add_sandbox(record)
    for number in range(50):
        store.add_run(replace(run(record, number), code="x" * 500), keep=100)
    store.close()
    whole = store.path.read_bytes()
    store.path.write_bytes(b"torn" * (size // 4) if size < 100 else whole[:size])
    torn = store.path.read_bytes()
    with pytest.raises(StoreFailed, match=r"store\.sqlite.* is damaged"):
        use(store, record)
    assert store.path.read_bytes() == torn
    store.path.write_bytes(whole)
    assert len(store.runs(record.id, 100)) == 50


def test_another_process_reads_while_this_one_writes(store: SqliteStore):
    record = sandbox()
    store.add_sandbox(record)
    reader = (
        "import sys; from pathlib import Path; from belljar.store.sqlite import SqliteStore\n"
        "store = SqliteStore(Path(sys.argv[1]))\n"
        "print(len(store.runs(sys.argv[2], 9)), flush=True)\ninput()\nprint(len(store.runs(sys.argv[2], 9)))"
    )
    command = [sys.executable, "-c", reader, str(store.path.parent), record.id]
    with probe.writing(store) as db:
        db.execute("UPDATE sandboxes SET name = 'being written'")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout.readline() == "0\n"
            db.execute("COMMIT")
            db.execute("BEGIN")
            store_again = SqliteStore(store.path.parent)
            db.execute("COMMIT")
            store_again.add_run(run(record, 1), keep=9)
            store_again.close()
            db.execute("BEGIN")
            assert other.communicate("\n", timeout=20)[0] == "1\n"


def test_a_store_of_a_later_belljar_is_refused(store: SqliteStore):
    store.add_sandbox(sandbox())
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    db.close()
    with pytest.raises(StoreFailed, match="later Belljar"):
        store.sandboxes()


def test_ids_are_no_paths(store: SqliteStore):
    with pytest.raises(StoreFailed, match="not the id"):
        store.read_checkpoint(CheckpointRecord("../../etc/passwd", str(uuid.uuid4()), 0.0, 0, 0, ""))


@pytest.mark.parametrize(
    "broken", ["limits = 'torn {'", "policy = '[]'", "limits = '{\"memory_mb\": -1}'", "packages = '1'"]
)
def test_one_row_that_makes_no_sense_does_not_cost_the_others(store: SqliteStore, broken: str):
    good, bad = sandbox(), sandbox()
    for each in (good, bad):
        store.add_sandbox(each)
    with probe.writing(store) as db:
        db.execute(f"UPDATE sandboxes SET {broken} WHERE id = ?", (bad.id,))
    assert store.sandboxes() == [good]
    with pytest.raises(StoreFailed, match=f"{bad.id}.* makes no sense"):
        store.sandbox(bad.id)


def test_rows_of_checkpoints_and_runs_that_make_no_sense_are_refused_by_name(store: SqliteStore):
    record = sandbox()
    store.add_sandbox(record)
    store.add_checkpoint(checkpoint(record), b"x", keep=2)
    store.add_run(run(record, 1), keep=2)
    with probe.writing(store) as db:
        db.execute("UPDATE checkpoints SET skipped = 'torn {'")
        db.execute("UPDATE runs SET summary = ''")
    with pytest.raises(StoreFailed, match=f"{record.id}.* makes no sense"):
        store.checkpoints(record.id)
    with pytest.raises(StoreFailed, match=f"{record.id}.* makes no sense"):
        store.runs(record.id, 5)


def test_only_bytes_that_the_store_wrote_are_ever_pruned(store: SqliteStore, tmp_path: Path):
    record, root = sandbox(), store.path.parent / "checkpoints"
    store.add_sandbox(record)
    store.add_checkpoint(checkpoint(record), b"x", keep=2)
    kept = next((root / record.id).iterdir())
    abroad = tmp_path / "abroad"
    (abroad / "folder").mkdir(parents=True)
    lost = root / record.id / str(uuid.uuid4())
    others = [abroad / str(uuid.uuid4()), root / record.id / "notes.txt", root / "file"]
    (root / str(uuid.uuid4())).symlink_to(abroad)
    (root / record.id / str(uuid.uuid4())).mkdir()
    for path in (lost, *others):
        path.write_bytes(b"x")
    for path in (*root.rglob("*"), *others):
        os.utime(path, (1, 1))
    store.prune(0)
    assert not lost.exists()
    assert all(path.exists() for path in (*others, kept))


def test_a_store_that_was_removed_is_begun_anew_and_not_written_where_nobody_reads(store: SqliteStore):
    before, after = sandbox(), sandbox()
    store.add_sandbox(before)
    for path in store.path.parent.glob("store.sqlite*"):
        path.unlink()
    other = SqliteStore(store.path.parent)
    other.add_sandbox(after)
    assert store.sandboxes() == [after]
    with pytest.raises(StoreFailed):
        store.add_checkpoint(checkpoint(before), b"x", keep=1)
    store.add_run(run(after, 1), keep=1)
    assert other.runs(after.id, 1) == [run(after, 1)]
    other.close()
