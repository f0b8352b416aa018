"""How a run ended: the one place that decides the status, the error and the state of an Execution."""

from __future__ import annotations

import json
import mimetypes
from dataclasses import dataclass

from belljar.engines import exits
from belljar.engines.base import Event, Exit
from belljar.entry import Listing
from belljar.execution import ChangedFile, Execution, ExecutionError
from belljar.host.stop import StoppedBy
from belljar.limits import Limits
from belljar_kernel.protocol import CHANGED_FILES, ERROR_CODES, PATH_CHARS, VALUE_BYTES


@dataclass(frozen=True)
class Ending:
    """The facts of a run's end: the kernel's final Event or how the kernel ended instead, and who stopped it.

    `not_run` says why no code ran. `outlook` says what the next run continues from, when the kernel has ended.
    """

    done: Event | None = None
    exit: Exit | None = None
    stopped_by: StoppedBy | None = None
    not_run: str | None = None
    outlook: str | None = None


def conclude(execution: Execution, ending: Ending, limits: Limits, timeout_s: float) -> None:
    """Set everything in an Execution that depends on how its run ended. Nothing in `done` is trusted."""
    if ending.not_run is not None:
        execution.status, execution.exit_code = "error", 1
        execution.error = ExecutionError("PackageError", ending.not_run, "", None, "PACKAGE_INSTALL_FAILED")
        return
    if ending.done is not None:
        _take_done(execution, ending.done)
    if _was_stopped(ending):
        _stop(execution, ending, timeout_s)
    elif ending.exit is not None:
        execution.status, execution.error, execution.exit_code = exits.explain(ending.exit, limits)
    if ending.exit is not None:
        assert execution.error is not None
        lost = execution.error.value
        execution.state, execution.state_reason = "reset", lost
        if ending.outlook is not None:
            execution.state, execution.state_reason = "restored", f"{lost}; {ending.outlook}"


def found_files(listing: Listing) -> list[ChangedFile]:
    """Files of the workspace as an Execution names them."""
    files = [entry for entry in listing if entry.type == "file"]
    return [ChangedFile(entry.path, entry.size, _mime(entry.path)) for entry in files[:CHANGED_FILES]]


def weight(content: object) -> int:
    """How many characters JSON of this content has, as kernels write it; escapes of plain text are not counted."""
    if isinstance(content, str):
        return len(content)
    return len(json.dumps(content, separators=(",", ":"))) if content else 0


def _was_stopped(ending: Ending) -> bool:
    """A run past its deadline counts as stopped. For other stops the kernel says whether they ended the code."""
    if ending.stopped_by is None:
        return False
    if ending.done is None or ending.stopped_by == "deadline":
        return True
    return ending.done.get("interrupted") is True


def _stop(execution: Execution, ending: Ending, timeout_s: float) -> None:
    """Say that the run was stopped. The traceback of a Python that lives says where."""
    was_killed, where = ending.exit is not None, execution.error
    traceback, line = (where.traceback, where.line) if where and not was_killed else ("", None)
    if ending.stopped_by == "deadline":
        execution.status, execution.exit_code = "timeout", exits.TIMEOUT_EXIT
        execution.error = exits.timed_out(timeout_s, killed=was_killed, traceback=traceback, line=line)
    else:
        execution.status, execution.exit_code = "cancelled", exits.CANCELLED_EXIT
        execution.error = exits.cancelled(killed=was_killed, traceback=traceback, line=line)


def _take_done(execution: Execution, done: Event) -> None:
    execution.status = "ok" if done.get("status") == "ok" else "error"
    execution.error = _error(done.get("error"))
    if execution.error is not None and execution.status == "ok":
        execution.status = "error"
    if execution.error is not None and execution.error.code == "MEMORY_ERROR":
        execution.status = "out_of_memory"
    value = done.get("value")
    if weight(value) <= VALUE_BYTES:
        execution.value = value
    else:
        execution.truncated = True
    code = done.get("exit_code")
    execution.exit_code = code if type(code) is int and -(2**31) <= code < 2**32 else 1
    execution.truncated = execution.truncated or done.get("truncated") is True
    execution.files = _files(done.get("files"))


def _error(given: object) -> ExecutionError | None:
    if not isinstance(given, dict):
        return None
    line, code = given.get("line"), given.get("code")
    return ExecutionError(
        name=_text(given.get("name")) or "Exception",
        value=_text(given.get("value")),
        traceback=_text(given.get("traceback")),
        line=line if type(line) is int and line > 0 else None,
        code=code if isinstance(code, str) and code in ERROR_CODES else "RUNTIME_ERROR",
    )


def _files(given: object) -> list[ChangedFile]:
    if not isinstance(given, list):
        return []
    files = []
    for row in given[:CHANGED_FILES]:
        path, size = (row.get("path"), row.get("size")) if isinstance(row, dict) else (None, None)
        if isinstance(path, str) and type(size) is int and size >= 0:
            files.append(ChangedFile(path[:PATH_CHARS], size, _mime(path)))
    return files


def _mime(path: str) -> str:
    name = path.rpartition("/")[2].replace(":", "_")  # it would be read as a URL
    return mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"


def _text(given: object) -> str:
    return given[: 1 << 20] if isinstance(given, str) else ""
