"""Hostile frames against the host's own reader and recorder, without a sandbox: broken, or harmless, and quickly so."""

from __future__ import annotations

import json
import struct
import tracemalloc

import pytest

from belljar.engines.base import ignore
from belljar.engines.transport.frames import BrokenProtocol, FrameReader, decode
from belljar.execution import Execution
from belljar.host.budget import Budget
from belljar.host.conclusion import Ending, conclude
from belljar.host.overflow import Overflow
from belljar.host.recorder import Recorder
from belljar.limits import Limits
from belljar_kernel.protocol import FRAME_BYTES, RESULTS_BYTES


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b"5", b'"done"', b"\xff\xfe", b"{}",
        b'{"type": "done"}', b'{"type": "done", "id": 1.0}', b'{"type": "done", "id": true}', b'{"type": "done", "id": "1"}',
        b'{"type": [], "id": 1}', b'{"type": {}, "id": 1}', b'{"type": null, "id": 1}', b'{"type": "exec", "id": 1}',
        b'{"type": "stdout", "id": 1}', b'{"type": "stdout", "id": 1, "text": 5}', b'{"type": "stderr", "id": 1, "text": []}',
        b'{"type": "done", "id": 1, "value": NaN}', b'{"type": "done", "id": 1, "value": -Infinity}',
        b'{"type": "done", "id": 1, "value": 1e999}', b'{"type": "done", "id": 1, "value": -1e999}',
        b'{"type": "done", "id": ' + b"9" * 5000 + b"}",
        b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000,
        b'{"type": "done", "id": 1, "value": ' + b"[" * 150 + b"]" * 150 + b"}",
        b'{"type": "done", "id": 1, "value": ' + b'{"x":' * 150 + b"1" + b"}" * 150 + b"}",
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)  # fmt: skip
def test_a_frame_that_is_no_event_is_broken(body: bytes):
    with pytest.raises(BrokenProtocol):
        decode(body)
    with pytest.raises(BrokenProtocol):
        FrameReader().feed(framed(body))


def test_an_empty_list_repeated_does_not_swell_the_host():
    body = b'{"type":"done","id":1,"value":[' + b"[]," * 8_000_000 + b"[]]}"
    tracemalloc.start()
    try:
        with pytest.raises(BrokenProtocol):
            decode(body)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()


def test_text_full_of_brackets_and_commas_is_just_text():
    text = '[{"a": 1, "b": [2, 3]}, \\"' * 100_000
    assert decode(json.dumps({"type": "stdout", "id": 1, "text": text}).encode())["text"] == text


def test_a_length_beyond_the_cap_is_broken_before_a_byte_of_it_came():
    with pytest.raises(BrokenProtocol):
        FrameReader().feed(struct.pack(">I", FRAME_BYTES + 1))


def test_frames_may_come_in_any_pieces():
    event = {"type": "stdout", "id": 1, "text": "hello \ud800"}
    stream = framed(json.dumps(event).encode()) * 3
    for size in (1, 2, 3, 5, 7, 1000):
        reader = FrameReader()
        got = [each for at in range(0, len(stream), size) for each in reader.feed(stream[at : at + size])]
        assert got == [event] * 3


HOSTILE_VALUES = [None, True, 5, -1, 10**400, 1.5, "x", "x" * 5000, "\ud800", "\0", [], [[]], {}, {"a": 1}, [None] * 3]


def test_any_value_in_any_field_of_a_final_event_gives_a_sane_execution():
    for name in ("status", "error", "value", "exit_code", "files", "truncated", "interrupted"):
        for value in HOSTILE_VALUES:
            check(finished({"status": "ok", name: value}))


def test_any_value_in_any_field_of_an_error_gives_a_sane_execution():
    for name in ("name", "value", "traceback", "line", "code"):
        for value in HOSTILE_VALUES:
            check(finished({"status": "error", "error": {"name": "E", "code": "RUNTIME_ERROR", name: value}}))


def test_any_value_in_a_row_of_files_gives_a_sane_execution():
    for value in [*HOSTILE_VALUES, "//[", "http://[", "../../etc/passwd", "/etc/passwd", "a\nb"]:
        check(finished({"status": "ok", "files": [value, {"path": value, "size": 1}, {"path": "x", "size": value}]}))


def test_any_value_in_a_result_gives_a_sane_execution():
    for value in HOSTILE_VALUES:
        for event in (
            {"data": value, "metadata": {}, "main": True},
            {"data": {"text/plain": value, "application/json": value, "image/png": value}, "metadata": {}},
            {"data": {"text/plain": "x"}, "metadata": value, "main": value},
            {"data": {"application/vnd.belljar.table+json": value, "text/html": "x"}, "metadata": {"x": value}},
        ):
            execution = Execution()
            recorder_of(execution)({"type": "result", "id": 1, **event})
            check(execution)


def test_a_value_that_is_too_large_is_left_out():
    execution = finished({"status": "ok", "value": "x" * (20 << 20)})
    assert execution.value is None
    assert execution.truncated


def test_results_beyond_their_cap_are_left_out():
    execution = Execution()
    recorder = recorder_of(execution)
    for _ in range(5):
        recorder({"type": "result", "id": 1, "data": {"text/plain": "x" * (RESULTS_BYTES // 3)}, "metadata": {}})
    assert len(execution.results) <= 3
    assert execution.truncated


def recorder_of(execution: Execution) -> Recorder:
    return Recorder(execution, 1000, Overflow(1, Budget(1 << 20)), None, ignore, ignore)


def finished(done: dict[str, object]) -> Execution:
    execution = Execution()
    conclude(execution, Ending({"type": "done", "id": 1, **done}), Limits(), 1.0)
    return execution


def check(execution: Execution) -> None:
    """Whatever came in, what comes out has the contract's types and is JSON."""
    assert execution.status in ("ok", "error", "out_of_memory")
    assert type(execution.exit_code) is int
    assert type(execution.truncated) is bool
    if execution.error is not None:
        error = execution.error
        assert all(type(text) is str for text in (error.name, error.value, error.traceback, error.code))
        assert error.line is None or type(error.line) is int
    for file in execution.files:
        assert type(file.path) is str
        assert type(file.size) is int
    for result in execution.results:
        assert all(type(getattr(result, name)) in (str, type(None)) for name in ("text", "html", "png", "svg", "latex"))
        assert type(result.is_main_result) is bool
    json.dumps(execution.to_dict(), allow_nan=False)


OTHER = "application/octet-stream"


def test_the_kind_of_a_file_is_told_by_its_name_which_is_no_url():
    names = {
        "a/b.csv": "text/csv",
        "x:y.png": "image/png",
        "data:text/html,.txt": "text/plain",
        "//[": OTHER,
        ".html": OTHER,
    }
    files = finished({"status": "ok", "files": [{"path": name, "size": 1} for name in names]}).files
    assert {file.path: file.mime for file in files} == names
