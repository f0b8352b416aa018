"""Bad input gets a clear error and loses nothing: the sandbox and its state are still there after each."""

from __future__ import annotations

import math
from typing import Any

import pytest

from belljar import AsyncSandbox, InvalidRequest, Limits, Policy, Sandbox, SandboxError

REFUSED_CODE = {
    "empty": "",
    "blank": " \n\t",
    "20 MB": "#" * (20 << 20),
    "bytes": b"1 + 1",
    "none": None,
    "number": 7,
}
REFUSED_OPTIONS: dict[str, dict[str, Any]] = {
    "timeout zero": {"timeout": 0},
    "timeout over": {"timeout": 301},
    "timeout nan": {"timeout": math.nan},
    "timeout infinite": {"timeout": math.inf},
    "timeout negative": {"timeout": -1},
    "timeout bool": {"timeout": True},
    "timeout text": {"timeout": "5"},
    "timeout huge": {"timeout": 10**400},
    "stdin bytes": {"stdin": b"x"},
    "stdin too large": {"stdin": "x" * (33 << 20)},
    "env list": {"env": ["A=1"]},
    "env number": {"env": {"A": 1}},
    "env name": {"env": {"A=B": "1"}},
    "env empty name": {"env": {"": "1"}},
    "env nul": {"env": {"A": "\0"}},
    "env surrogate": {"env": {"A": "\ud800"}},
    "args object": {"args": object()},
    "args nan": {"args": [math.nan]},
    "args set": {"args": {1, 2}},
    "files list": {"files": ["a"]},
    "files number": {"files": {"a": 1}},
    "files path": {"files": {"../a": "x"}},
    "files surrogate": {"files": {"a": "\ud800"}},
    "cwd number": {"cwd": 3},
    "packages": {"packages": ["git+https://example.org/x.git"]},
    "packages text": {"packages": "requests"},
}
ODD_CODE = {
    "nul": "1\0+ 1",
    "surrogate": "'\ud800'",
    "surrogate name": "x\udcff = 1",
    "not python": "this is not python",
    "deep": "(" * 5000,
    "byte order mark": "\ufeff1",
}


@pytest.fixture(scope="module")
def kept() -> Any:
    with Sandbox() as sandbox:
        sandbox.run("precious = 'kept'")
        yield sandbox


def still_there(sandbox: Sandbox) -> bool:
    ran = sandbox.run("precious")
    return (ran.status, ran.value, ran.state) == ("ok", "kept", "kept")


@pytest.mark.parametrize("code", REFUSED_CODE.values(), ids=REFUSED_CODE)
def test_code_that_cannot_be_meant_is_refused(kept: Sandbox, code: Any):
    with pytest.raises(InvalidRequest, match="code"):
        kept.run(code)
    assert still_there(kept)


@pytest.mark.parametrize("options", REFUSED_OPTIONS.values(), ids=REFUSED_OPTIONS)
def test_options_that_cannot_be_meant_are_refused(kept: Sandbox, options: dict[str, Any]):
    with pytest.raises(SandboxError) as refused:
        kept.run("precious = 'gone'", **options)
    assert isinstance(refused.value, ValueError)
    assert still_there(kept)


@pytest.mark.parametrize("code", ODD_CODE.values(), ids=ODD_CODE)
def test_odd_code_is_the_codes_own_error(kept: Sandbox, code: str):
    assert kept.run(code).status in ("ok", "error")
    assert still_there(kept)


def test_nul_bytes_in_code_are_a_syntax_error(kept: Sandbox):
    assert kept.run("1\0").error.code == "PYTHON_SYNTAX_ERROR"


def test_seven_megabytes_of_code_run(kept: Sandbox):
    assert kept.run("#" * (7 << 20) + "\n1").value == 1


def test_unknown_options_are_refused(kept: Sandbox):
    with pytest.raises(TypeError, match="colour"):
        kept.run("1", colour="red")
    assert still_there(kept)


@pytest.mark.parametrize("cursor", [-1, 4, True, 1.0, "1"])
def test_a_cursor_outside_the_code_is_refused(kept: Sandbox, cursor: Any):
    with pytest.raises(InvalidRequest, match="cursor must be from 0 to 3"):
        kept.complete("pre", cursor)
    assert still_there(kept)


@pytest.mark.parametrize("value", [0, 301, math.nan, math.inf, -math.inf, True, "30", -1, None, 10**400])
def test_a_time_limit_out_of_range_is_refused(value: Any):
    with pytest.raises(InvalidRequest, match="timeout_s must be"):
        Limits(timeout_s=value)


@pytest.mark.parametrize(
    "limits",
    [
        {"memory_mb": 0}, {"memory_mb": 63}, {"memory_mb": 512.5}, {"memory_mb": 10**30}, {"cpus": 0}, {"cpus": -1},
        {"processes": 0}, {"processes": 1.5}, {"disk_mb": 0}, {"disk_mb": True}, {"output_mb": 0}, {"output_mb": math.nan},
    ],
    ids=str,
)  # fmt: skip
def test_limits_out_of_range_are_refused_by_name(limits: dict[str, Any]):
    with pytest.raises(InvalidRequest, match=f"{next(iter(limits))} must be"):
        Limits(**limits)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("container", "not part of this version"),
        ("qemu", "no engine 'qemu'"),
        ("", ""),
    ],
)
def test_engines_that_are_not_there_are_refused_with_those_that_are(engine: str, said: str):
    with pytest.raises(InvalidRequest, match=f"{said}.*use one of: auto, native"):
        Sandbox(engine)


@pytest.mark.parametrize(
    "options",
    [
        {"host": "http://localhost:1"}, {"packages": ["./x"]}, {"tools": [print]}, {"python": "3.99"},
        {"env": {"A": 1}}, {"files": {"/etc/passwd": "x"}}, {"limits": {"timeout_s": 3}},
        {"policy": "none"}, {"policy": Policy(network=["exa*mple.org"])}, {"policy": Policy(mounts={"/data": "x"})},
    ],
    ids=str,
)  # fmt: skip
def test_a_sandbox_refuses_what_this_version_cannot_do(options: dict[str, Any]):
    with pytest.raises(SandboxError) as refused:
        Sandbox(**options)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("policy", [Policy(network=["exa*mple.org"]), Policy(mounts={"/data": "x"})], ids=str)
def test_a_policy_that_no_engine_can_keep_is_refused_before_anything_starts(policy: Policy):
    with pytest.raises(InvalidRequest):
        AsyncSandbox(policy=policy)


@pytest.mark.parametrize("policy", [{"network": "example.org"}, {"network": [1]}, {"packages": "some"}], ids=str)
def test_a_policy_that_makes_no_sense_is_refused(policy: dict[str, Any]):
    with pytest.raises(InvalidRequest):
        Policy(**policy)


def test_names_and_ids_that_cannot_be_stored_are_refused():
    with pytest.raises(InvalidRequest, match="name cannot be written as UTF-8"):
        Sandbox(name="half \ud800")
    with pytest.raises(InvalidRequest, match="id cannot be written as UTF-8"):
        Sandbox.connect("half \ud800")
    with pytest.raises(InvalidRequest, match="name has 1,001 characters"):
        Sandbox(name="x" * 1001)
    assert AsyncSandbox(name="x" * 1000).name == "x" * 1000
