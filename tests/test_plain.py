"""Values come back equal from JSON; what comes from outside and cannot be is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belljar import events
from belljar.entry import Entry
from belljar.errors import InvalidRequest
from belljar.execution import (
    ChangedFile,
    Completion,
    Denial,
    Execution,
    ExecutionError,
    Logs,
    Result,
    Usage,
    Variable,
)
from belljar.health import EngineHealth, Layer
from belljar.limits import BOUNDS, Limits
from belljar.plain import from_plain, to_plain
from belljar.policy import Policy
from belljar.service.base import Reply, RunRequest, SandboxInfo, SandboxRequest
from belljar.state.checkpoint import CheckpointReport

TEXT, WHOLE = st.text(max_size=20), st.integers(-(2**60), 2**60)
NUMBER, FLAG = st.floats(allow_nan=False, allow_infinity=False), st.booleans()
JSON = st.recursive(
    st.none() | FLAG | WHOLE | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT, TEXTS = st.dictionaries(TEXT, JSON, max_size=3), st.lists(TEXT, max_size=3)
MAYBE, NAMES = st.none() | TEXT, st.tuples() | st.tuples(TEXT, TEXT)
REASONS, FILES = st.dictionaries(TEXT, TEXT, max_size=3), st.dictionaries(TEXT, st.binary(max_size=50), max_size=3)

# What a request takes: it checks its own fields.
VARIABLES = st.dictionaries(
    st.text("ABC_", min_size=1, max_size=5), st.text(max_size=5).map(lambda text: text.replace("\0", ""))
)
CONTENTS = st.dictionaries(
    st.text("abc.-", min_size=4, max_size=9).filter(lambda name: ".." not in name), st.binary(max_size=50)
)
CODE, IDS = TEXT.filter(str.strip), st.none() | st.uuids().map(str)
CALLS = st.lists(st.text("abc_", min_size=1, max_size=9), max_size=3, unique=True).map(tuple)

WHOLE_LIMITS = {"memory_mb", "processes", "disk_mb"}
LIMITS = st.builds(
    Limits,
    **{
        name: st.integers(int(low), int(high)) if name in WHOLE_LIMITS else st.floats(low, high)
        for name, (low, high) in BOUNDS.items()
    },
)
POLICY = st.builds(Policy, network=TEXTS, packages=st.sampled_from(["auto", "none"]) | TEXTS, mounts=REASONS)
REPORT = st.builds(CheckpointReport, saved=TEXTS, skipped=REASONS, files_skipped=REASONS, packages_skipped=REASONS)
RESULT = st.builds(
    Result, text=MAYBE, html=MAYBE, png=MAYBE, json=JSON, data=st.none() | OBJECT, chart=st.none() | OBJECT,
    is_main_result=FLAG, extra=OBJECT,
)  # fmt: skip
EXECUTION = st.builds(
    Execution,
    status=st.sampled_from(["ok", "error", "timeout", "out_of_memory", "cancelled", "crashed"]),
    results=st.lists(RESULT, max_size=3),
    logs=st.builds(Logs, stdout=TEXTS, stderr=TEXTS),
    error=st.none()
    | st.builds(ExecutionError, name=TEXT, value=TEXT, traceback=TEXT, line=st.none() | WHOLE, code=TEXT, hint=MAYBE),
    execution_count=WHOLE,
    value=JSON,
    usage=st.builds(Usage, wall_s=NUMBER, cpu_s=NUMBER, peak_memory_bytes=WHOLE),
    truncated=FLAG,
    files=st.lists(st.builds(ChangedFile, path=TEXT, size=WHOLE, mime=TEXT), max_size=3),
    packages_installed=TEXTS,
    denials=st.lists(st.builds(Denial, kind=TEXT, target=TEXT, rule=TEXT, hint=TEXT, source=TEXT), max_size=3),
    tool_calls=st.lists(OBJECT, max_size=3),
    exit_code=WHOLE,
    state=st.sampled_from(["kept", "restored", "reset"]),
    state_reason=MAYBE,
    degraded=TEXTS,
    engine=TEXT,
    sandbox_id=TEXT,
)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    Execution: EXECUTION,
    Limits: LIMITS,
    Policy: POLICY,
    CheckpointReport: REPORT,
    SandboxRequest: st.builds(
        SandboxRequest, engine=MAYBE, packages=st.none() | NAMES, files=CONTENTS, env=VARIABLES,
        limits=st.none() | LIMITS, policy=st.none() | POLICY, python=MAYBE, durable=FLAG, name=MAYBE, id=IDS, tools=CALLS,
    ),
    SandboxInfo: st.builds(
        SandboxInfo, id=TEXT, engine=TEXT, state=st.sampled_from(["live", "asleep"]), durable=FLAG, created=NUMBER,
        last_used=NUMBER, name=MAYBE, python=MAYBE, limits=LIMITS, policy=POLICY, restored=st.none() | REPORT,
    ),
    RunRequest: st.builds(
        RunRequest, code=CODE, timeout_s=st.none() | st.floats(1, 300), stdin=MAYBE, env=VARIABLES,
        args=st.tuples() | st.tuples(JSON), files=CONTENTS, packages=NAMES, cwd=MAYBE, live=FLAG,
    ),
    Reply: st.builds(Reply, call_id=WHOLE, value=JSON, error=st.none() | st.tuples(TEXT, TEXT)),
    Completion: st.builds(Completion, text=TEXT, start=WHOLE, end=WHOLE, type=TEXT),
    Variable: st.builds(
        Variable, name=TEXT, type=TEXT, preview=MAYBE, size=st.none() | WHOLE,
        shape=st.none() | st.lists(WHOLE, max_size=3),
    ),
    Entry: st.builds(
        Entry, path=TEXT, type=st.sampled_from(["file", "directory", "symlink", "other"]), size=WHOLE, modified=NUMBER
    ),
    EngineHealth: st.builds(
        EngineHealth, engine=TEXT, available=FLAG,
        layers=st.lists(st.builds(Layer, name=TEXT, holds=FLAG, detail=TEXT, fix=MAYBE), max_size=3).map(tuple),
    ),
    events.Event: st.one_of(
        st.fixed_dictionaries({"type": st.sampled_from(["stdout", "stderr"]), "text": TEXT}),
        st.fixed_dictionaries({"type": st.just("result"), "data": OBJECT, "metadata": OBJECT, "main": FLAG}),
        st.fixed_dictionaries({"type": st.just("call"), "call_id": WHOLE, "name": TEXT, "args": OBJECT}),
    ),
}  # fmt: skip
RELAXED = settings(
    max_examples=50, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(to_plain(value), allow_nan=False))


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: getattr(kind, "__name__", "Event"))
@RELAXED
@given(data=st.data())
def test_a_value_comes_back_equal_and_of_its_own_types(kind: Any, data: st.DataObject):
    value = data.draw(VALUES[kind])
    back = from_plain(kind, through_json(value))
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value)  # a tuple stays one, and so does a whole number


@RELAXED
@given(EXECUTION)
def test_an_execution_comes_back_from_its_own_dictionary(execution: Execution):
    assert Execution.from_dict(json.loads(json.dumps(execution.to_dict()))) == execution


@RELAXED
@given(kind=st.sampled_from(list(VALUES)), data=JSON | OBJECT)
def test_whatever_comes_from_outside_is_a_value_or_an_invalid_request(kind: Any, data: Any):
    for strict in (True, False):
        try:
            value = from_plain(kind, data, strict=strict)
        except InvalidRequest:
            continue
        assert from_plain(kind, through_json(value)) == value


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (Limits, {"memory_mb": "512"}, "Limits.memory_mb must be a whole number, not '512'"),
        (Limits, {"memory_mb": True}, "Limits.memory_mb must be a whole number, not True"),
        (Limits, {"memory_mb": 1}, "memory_mb must be from 64 to"),
        (Limits, {"timeout_s": float("nan")}, "Limits.timeout_s must be a number, not nan"),
        (Limits, {"memory": 512}, "Limits has no 'memory'; it has timeout_s, memory_mb"),
        (Limits, [], r"Limits must be an object, not \[\]"),
        (RunRequest, {}, "RunRequest lacks 'code', a string"),
        (RunRequest, {"code": "1", "env": {"A": 1}}, r"RunRequest.env\['A'\] must be a string, not 1"),
        (RunRequest, {"code": "1", "packages": "numpy"}, "RunRequest.packages must be a list of strings, not 'numpy'"),
        (RunRequest, {"code": "1", "timeout_s": 10**400}, "RunRequest.timeout_s must be a number"),
        (RunRequest, {"code": "1", "timeout_s": 1e9}, "timeout_s must be from 0.05 to 300"),
        (SandboxRequest, {"id": "1"}, "id must be a UUID, not '1'"),
        (SandboxRequest, {"env": {"A=B": "1"}}, "no environment can hold"),
        (RunRequest, {"code": "1", "timeout_s": "1"}, "RunRequest.timeout_s must be a number, not '1'"),
        (SandboxRequest, {"files": {"a": "text"}}, r"SandboxRequest.files\['a'\] must be \{\"base64\": \"…\"\}"),
        (SandboxRequest, {"files": {"a": {"base64": "?"}}}, r"SandboxRequest.files\['a'\] is not base64: '\?'"),
        (SandboxRequest, {"policy": {"packages": 5}}, "must be 'auto' or 'none' or a list of strings, not 5"),
        (SandboxRequest, {"limits": {"cpus": None}}, "SandboxRequest.limits.cpus must be a number, not None"),
        (Reply, {"call_id": 1, "error": ["E"]}, "Reply.error must be a list of 2, not of 1"),
        (events.Event, {"type": "stdout", "text": 5}, "text must be a string, not 5"),
        (events.Event, {"type": "other"}, "must be an object"),
    ],
)
def test_a_refusal_names_the_field_the_value_and_what_is_wanted(kind: Any, data: Any, words: str):
    with pytest.raises(InvalidRequest, match=words):
        from_plain(kind, data)


def test_fields_of_a_newer_answer_are_ignored_at_every_depth():
    info = SandboxInfo("i", "native", "live", False, 1.0, 2.0)
    plain = through_json(info)
    newer = {**plain, "zone": 1, "limits": {**plain["limits"], "gpus": 1}, "policy": {**plain["policy"], "x": []}}
    assert from_plain(SandboxInfo, newer, strict=False) == info
    for name in ("zone", "gpus"):
        given = {**plain, "zone": 1} if name == "zone" else {**plain, "limits": newer["limits"]}
        with pytest.raises(InvalidRequest, match=name):
            from_plain(SandboxInfo, given)


def test_the_value_in_a_message_is_cut():
    with pytest.raises(InvalidRequest) as caught:
        from_plain(RunRequest, {"code": ["x" * 10_000]})
    assert len(str(caught.value)) < 300


def test_bytes_in_a_free_value_are_not_guessed():
    looks_like_bytes = {"base64": "AAAA"}
    assert from_plain(Reply, through_json(Reply(1, looks_like_bytes))).value == looks_like_bytes


def test_equal_policies_are_equal_however_they_are_written():
    assert Policy(network=["a.org"], packages=["numpy"]) == Policy(network=("a.org",), packages=("numpy",))


def test_neither_belljar_nor_an_execution_imports_what_makes_values_of_json():
    code = "import sys, belljar, belljar.execution; print('belljar.plain' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
