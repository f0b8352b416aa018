"""What the history keeps of a run: enough to know what happened, cut to a bound."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from belljar.execution import Execution
from belljar.store.base import RunRecord

if TYPE_CHECKING:
    from belljar.host.session import Run

CODE_CHARS, TEXT_CHARS = 20_000, 2_000
MOST_ROWS = 100  # of files, and of denials


def run_record(run: Run, execution: Execution) -> RunRecord:
    """What the history keeps of a run, cut to a bound."""
    error = execution.error
    summary: dict[str, Any] = {
        "text": _cut(execution.text),
        "stdout": _cut(execution.stdout),
        "stderr": _cut(execution.stderr),
        "error": {"name": _cut(error.name), "value": _cut(error.value), "code": error.code} if error else None,
        "results": len(execution.results),
        "files": [_cut(file.path) for file in execution.files[:MOST_ROWS]],
        "state": execution.state,
        "state_reason": _cut(execution.state_reason),
        "exit_code": execution.exit_code,
    }
    usage = execution.usage
    return RunRecord(
        execution.sandbox_id,
        execution.execution_count,
        time.time() - usage.wall_s,
        run.code[:CODE_CHARS].encode("utf-8", "backslashreplace").decode(),  # half a surrogate pair is no text
        execution.status,
        summary,
        usage.wall_s,
        usage.cpu_s,
        usage.peak_memory_bytes,
        [_plain(asdict(denial)) for denial in execution.denials[:MOST_ROWS]],
    )


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}…"


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _cut(value) if isinstance(value, str) else value for name, value in row.items()}
