import pytest

from belljar.execution import Denial, Execution, ExecutionError
from belljar.limits import Limits
from belljar.surfaces.cli import outcome


@pytest.mark.parametrize(
    ("status", "own", "expected"),
    [
        ("ok", 0, 0),
        ("error", 1, 1),
        ("error", 42, 42),
        ("error", -1, 255),
        ("timeout", 1, 124),
        ("out_of_memory", 1, 137),
        ("cancelled", 1, 130),
        ("crashed", 139, 139),
        ("crashed", 134, 134),
        ("crashed", -6, 134),
        ("crashed", 3, 3),
        ("crashed", 0, 139),
    ],
)
def test_each_end_has_the_exit_code_that_shells_know(status, own, expected):
    assert outcome.exit_code(Execution(status=status, exit_code=own)) == expected


def test_an_ordinary_run_needs_no_remark():
    error = ExecutionError("ValueError", "no", "Traceback", 1, "RUNTIME_ERROR")
    assert outcome.remarks(Execution(), Limits()) == []
    assert outcome.remarks(Execution(status="error", error=error), Limits()) == []


def test_a_timeout_says_which_limit_and_how_to_raise_it():
    assert outcome.remarks(Execution(status="timeout"), Limits(timeout_s=1.5)) == [
        "stopped at the time limit of 1.5 s; --timeout S allows up to 300"
    ]


def test_out_of_memory_says_which_limit_and_how_to_raise_it():
    (line,) = outcome.remarks(Execution(status="out_of_memory"), Limits(memory_mb=100))
    assert "its 100 MB; --memory MB allows more" in line


def test_everything_out_of_the_ordinary_is_told_without_steering_the_terminal():
    execution = Execution(
        status="crashed",
        error=ExecutionError("Crashed", "SIGSEGV", "", None, "CRASHED"),
        denials=[Denial("network", "evil\x1b]0;x\x07", "no network", "allow it with --net evil", "proxy")],
        truncated=True,
        degraded=["cgroup memory"],
    )
    assert outcome.remarks(execution, Limits()) == [
        "running without cgroup memory, as the operator allowed",
        "refused network evil\\x1b]0;x\\x07 (no network); allow it with --net evil",
        "output over 1 MB is not shown; write it to a file in /workspace, which --out DIR fetches",
        "crashed: SIGSEGV",
    ]
