"""Hostile answers about files, without a sandbox: a file error, or harmless, and never more than was asked for."""

from __future__ import annotations

import asyncio
import json
import struct
import tracemalloc
from typing import Any

import pytest

from belljar.engines.base import Event
from belljar.engines.kernel_workspace import KernelWorkspace
from belljar.engines.wasm.leaving import Leaving
from belljar.errors import FileError
from belljar.pieces import whole

HOSTILE: list[Any] = [None, True, 5, -1, 10**400, 1.5, "x", "=", "\ud800", [], [[]], {}, {"a": 1}, [None] * 4]


def workspace(answer: Event) -> KernelWorkspace:
    async def ask(_: dict[str, Any]) -> Event:
        return answer

    return KernelWorkspace(ask)


def frame(event: Event) -> bytes:
    body = json.dumps(event).encode()
    return struct.pack(">I", len(body)) + body


def file(**fields: Any) -> Event:
    return {
        "type": "file",
        "id": 0,
        "path": "x",
        "mode": 0o100644,
        "modified": 1,
        "append": False,
        "data": "",
        **fields,
    }


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_any_content_of_a_file_is_bytes_or_a_file_error(value: object):
    async def read() -> None:
        try:
            content = await asyncio.wait_for(whole(workspace({"data": value, "end": True}).read("x", 100)), 5)
        except FileError:
            return
        assert type(content) is bytes

    asyncio.run(read())


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
@pytest.mark.parametrize("column", range(4))
def test_any_value_in_a_listing_is_an_entry_or_a_file_error(column: int, value: object):
    row: list[Any] = ["x", "file", 1, 1.0]
    row[column] = value

    async def list_all() -> None:
        for entries in ([row], value):
            try:
                listing = await workspace({"entries": entries}).list("", 100)
            except FileError:
                continue
            assert all(type(entry.path) is str and type(entry.size) is int for entry in listing)

    asyncio.run(list_all())


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_any_failure_is_a_file_error(value: object):
    async def read() -> None:
        await workspace({"failure": value, "detail": value, "size": value}).delete("x")

    if value is None:
        asyncio.run(read())
    else:
        with pytest.raises(FileError):
            asyncio.run(read())


def test_a_file_that_never_ends_stops_at_the_cap():
    with pytest.raises(FileError):
        asyncio.run(whole(workspace({"data": "eHh4eA==", "end": False}).read("x", 10_000)))


@pytest.mark.parametrize(
    "event",
    [file(path="x" * (8 << 20)), file(target="x" * (8 << 20)), file(extra=["x" * 100] * 50_000)],
    ids=["path", "target", "extra"],
)
def test_files_handed_over_cost_the_host_no_more_than_its_disk_limit(event: Event):
    async def leave() -> None:
        leaving = Leaving(1 << 20)
        leaving.take(leaving.marker)
        tracemalloc.start()
        try:
            for _ in range(12):
                leaving.take(frame(event))
            assert tracemalloc.get_traced_memory()[0] < 40 << 20
        finally:
            tracemalloc.stop()

    asyncio.run(leave())


def test_nothing_counts_before_the_marker():
    async def leave() -> None:
        leaving = Leaving(1 << 20)
        leaving.take(frame({"type": "left", "id": 0}))
        assert not leaving.files.done()
        leaving.take(leaving.marker + frame(file()) + frame({"type": "left", "id": 0}))
        assert [restore["path"] for restore in leaving.files.result() or []] == ["x"]

    asyncio.run(leave())


@pytest.mark.parametrize(
    ("size", "modified"), [(1 << 63, 0), (1, 1e400), (1, float("nan")), (1, "1"), (1, None), (1, True), (True, 0)]
)
def test_a_row_with_a_size_or_a_time_that_cannot_be_is_a_file_error(size: Any, modified: Any):
    with pytest.raises(FileError, match="makes no sense"):
        asyncio.run(workspace({"entries": [["x", "file", size, modified]]}).list("", 9))
