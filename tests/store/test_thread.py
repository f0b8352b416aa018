"""The thread that a store is used in."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from belljar import StoreFailed
from belljar.store.sqlite import SqliteStore
from belljar.store.thread import StoreThread


def test_the_loop_goes_on_while_the_store_is_slow_and_order_is_kept(tmp_path: Path):
    async def use() -> list[object]:
        said: list[object] = []
        slow = asyncio.ensure_future(thread.call(lambda _: (time.sleep(0.3), said.append("slow"))))
        quick = asyncio.ensure_future(thread.call(lambda _: said.append(threading.current_thread().name)))
        await asyncio.sleep(0.01)
        said.append("loop")
        await asyncio.gather(slow, quick)
        return said

    thread = StoreThread(SqliteStore(tmp_path))
    assert asyncio.run(use()) == ["loop", "slow", "belljar-store"]
    thread.close()


def test_what_was_begun_is_done_before_it_closes_and_nothing_after(tmp_path: Path):
    done: list[int] = []
    thread = StoreThread(SqliteStore(tmp_path))
    for number in range(20):
        thread.begin(lambda _, number=number: done.append(number))
    thread.close()
    thread.close()
    assert done == list(range(20))
    with pytest.raises(StoreFailed, match="closed"):
        thread.begin(lambda _: None)


def test_a_failure_reaches_whoever_waits_and_ends_nothing(tmp_path: Path):
    thread = StoreThread(SqliteStore(tmp_path))
    with pytest.raises(ZeroDivisionError):
        thread.begin(lambda _: 1 / 0).result(5)
    waiting = thread.begin(lambda _: time.sleep(0.1))
    cancelled = thread.begin(lambda _: 1)
    cancelled.cancel()
    assert waiting.result(5) is None
    assert thread.begin(lambda store: store.sandboxes()).result(5) == []
    thread.close()
