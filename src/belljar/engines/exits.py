"""Says how a kernel ended: facts seen outside become a status, a sentence and the next step."""

from __future__ import annotations

import signal

from belljar.engines.base import Exit
from belljar.errors import StartFailed
from belljar.execution import ExecutionError, Status
from belljar.limits import Limits

TIMEOUT_EXIT, OUT_OF_MEMORY_EXIT, CANCELLED_EXIT, SIGNAL_BASE = 124, 137, 130, 128


def explain(exit: Exit, limits: Limits) -> tuple[Status, ExecutionError, int]:
    """Status, error and exit code of a run whose kernel ended although the host had not ended it."""
    if exit.out_of_memory:
        value = (
            f"the sandbox went over its memory limit of {limits.memory_mb} MB and was ended. "
            "Work on smaller pieces, or raise memory_mb"
        )
        return "out_of_memory", _error("MemoryError", value, "MEMORY_ERROR"), OUT_OF_MEMORY_EXIT
    if exit.broken is not None:
        return "crashed", _error("KernelCrashed", f"{exit.broken}; the sandbox's Python was ended", "CRASHED"), 1
    if exit.signal is not None:
        value = f"the sandbox's Python was ended by {_signal_name(exit.signal)}; native code in it may be at fault"
        return "crashed", _error("KernelCrashed", value, "CRASHED"), SIGNAL_BASE + exit.signal
    value = f"the code ended the sandbox's Python itself, with exit code {exit.code}"
    return "crashed", _error("KernelCrashed", value, "CRASHED"), exit.code or 0


def timed_out(limit_s: float, killed: bool, traceback: str = "", line: int | None = None) -> ExecutionError:
    """The error of a run that was stopped at its time limit."""
    done = "did not stop when interrupted and was killed; variables are lost" if killed else "was interrupted"
    value = (
        f"the code ran longer than its limit of {limit_s:g} s and {done}. "
        "Do the work in smaller steps, look for an endless loop, or raise the timeout (300 s at most)"
    )
    return ExecutionError("TimeoutError", value, traceback, line, "EXECUTION_TIMEOUT")


def cancelled(killed: bool, traceback: str = "", line: int | None = None) -> ExecutionError:
    """The error of a run that its caller stopped."""
    value = "the run was cancelled" + (" and had to be killed; variables are lost" if killed else "")
    return ExecutionError("KeyboardInterrupt", value, traceback, line, "CANCELLED")


def _error(name: str, value: str, code: str) -> ExecutionError:
    return ExecutionError(name, value, "", None, code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def in_set_up(exit: Exit, limits: Limits) -> StartFailed:
    """What to raise for a kernel that ended before it had answered its first Request."""
    return StartFailed(f"the kernel ended while it was being set up: {explain(exit, limits)[1].value}")
