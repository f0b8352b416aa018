"""What every store does: what goes in comes out, one host at a time has a sandbox, and what is old makes room."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.rows import checkpoint, run, sandbox

from belljar import CheckpointRefused, StoreFailed
from belljar.store.base import Store
from belljar.store.memory import MemoryStore
from belljar.store.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store = SqliteStore(tmp_path / "state") if request.param == "sqlite" else MemoryStore()
    yield opened
    opened.close()


def test_what_goes_in_comes_out(store: Store):
    first, other = sandbox(), sandbox(owner="bob", created=9.0)
    store.add_sandbox(first)
    store.add_sandbox(other)
    assert store.sandbox(first.id) == first
    assert store.sandbox("no-such-id") is None
    assert store.sandboxes() == [other, first]
    assert store.sandboxes("ann") == [first]
    saved = checkpoint(first)
    store.add_checkpoint(saved, b"bytes", keep=2)
    assert store.checkpoints(first.id) == [saved]
    assert store.read_checkpoint(saved) == b"bytes"
    store.add_run(run(first, 1), keep=10)
    assert store.runs(first.id, 5) == [run(first, 1)]
    store.update_sandbox(first.id, 7.0, ("a==1",))
    assert store.sandbox(first.id) == replace(first, last_used=7.0, packages=("a==1",))


def test_one_host_at_a_time_has_a_sandbox(store: Store):
    record = sandbox()
    store.add_sandbox(record)
    assert store.claim(record.id, "one", None)
    assert not store.claim(record.id, "two", None)
    assert store.claim(record.id, "two", "one")
    assert store.release("one") == []
    assert store.release("two", "it ended") == [record.id]
    asleep = store.sandbox(record.id)
    assert (asleep.state, asleep.host, asleep.reason) == ("asleep", None, "it ended")
    assert store.claim(record.id, "three", None)
    assert store.sandbox(record.id).reason is None  # it lives again
    store.release("three")
    store.close_sandbox(record.id, "too old")
    assert not store.claim(record.id, "three", None)
    assert (store.sandboxes(), store.sandboxes(closed=True)[0].reason) == ([], "too old")


def test_a_clock_that_was_put_back_does_not_make_the_newest_checkpoint_the_oldest(store: Store):
    record = sandbox()
    store.add_sandbox(record)
    saved = [checkpoint(record, created=created) for created in (100.0, 101.0, 50.0, 51.0)]
    for each in saved:
        store.add_checkpoint(each, b"x", keep=2)
    assert store.checkpoints(record.id) == [saved[3], saved[2]]
    assert store.read_checkpoint(saved[3]) == b"x"


def test_old_checkpoints_and_runs_make_room_for_new_ones(store: Store):
    record = sandbox()
    store.add_sandbox(record)
    saved = [checkpoint(record, created=float(number), count=number) for number in range(5)]
    for number, each in enumerate(saved):
        store.add_checkpoint(each, b"x" * number, keep=2)
        store.add_run(run(record, number), keep=3)
    assert store.checkpoints(record.id) == [saved[4], saved[3]]
    assert [store.read_checkpoint(each) for each in saved[3:]] == [b"xxx", b"xxxx"]
    with pytest.raises(CheckpointRefused, match="are gone"):
        store.read_checkpoint(saved[0])
    assert [each.count for each in store.runs(record.id, 100)] == [4, 3, 2]
    assert [each.count for each in store.runs(record.id, 2)] == [4, 3]
    store.confirm_checkpoint(saved[4].id, 9)
    assert store.checkpoints(record.id)[0].count == 9


def test_what_is_closed_loses_its_checkpoints_at_once_and_its_row_later(store: Store):
    record = sandbox()
    store.add_sandbox(record)
    saved = checkpoint(record)
    store.add_checkpoint(saved, b"x", keep=2)
    store.add_run(run(record, 1), keep=3)
    store.close_sandbox(record.id)
    assert store.checkpoints(record.id) == []
    with pytest.raises(CheckpointRefused):
        store.read_checkpoint(saved)
    store.prune(time.time() - 60)
    assert store.sandbox(record.id).state == "closed"
    store.prune(time.time() + 60)
    assert (store.sandbox(record.id), store.runs(record.id, 5)) == (None, [])


def test_a_sandbox_that_never_came_to_life_leaves_nothing(store: Store):
    record = sandbox()
    store.add_sandbox(record)
    store.add_run(run(record, 1), keep=3)
    store.remove_sandbox(record.id)
    assert (store.sandbox(record.id), store.runs(record.id, 5)) == (None, [])
    store.add_sandbox(record)
    assert store.sandboxes() == [record]


def test_a_sandbox_is_found_by_its_owner_alone(store: Store):
    record = sandbox()
    store.add_sandbox(record)
    assert (store.sandbox(record.id, "ann"), store.sandbox(record.id, "bob")) == (record, None)
    assert store.sandboxes("bob") == []


def test_rows_of_a_sandbox_that_is_not_there_are_refused_and_an_id_is_taken_once(store: Store):
    stranger, record = sandbox(), sandbox()
    with pytest.raises(StoreFailed):
        store.add_checkpoint(checkpoint(stranger), b"x", keep=1)
    with pytest.raises(StoreFailed):
        store.add_run(run(stranger, 1), keep=1)
    store.add_sandbox(record)
    with pytest.raises(StoreFailed, match="refused a row"):
        store.add_sandbox(replace(record, owner="bob"))
    assert store.sandboxes() == [record]


def test_one_sandbox_of_a_host_can_fall_asleep_without_the_others(store: Store):
    first, other = sandbox(created=1.0), sandbox(created=2.0)
    for each in (first, other):
        store.add_sandbox(each)
        store.claim(each.id, "one", None)
    assert store.release("one", "idle", first.id) == [first.id]
    assert [each.state for each in store.sandboxes()] == ["live", "asleep"]
