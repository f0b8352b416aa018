"""What the history keeps of a run: enough to know what happened, cut to a bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from belljar.execution import Execution
from belljar.service.base import RunRequest
from belljar.store.base import RunRecord

CODE_CHARS, TEXT_CHARS = 20_000, 2_000
MOST_ROWS, ROWS_CHARS = 100, 10_000  # of files, and of denials: so many, and not more text than that in all


def run_record(request: RunRequest, execution: Execution, now: float) -> RunRecord:
    """What the history keeps of a run, cut to a bound."""
    error = execution.error
    summary: dict[str, Any] = {
        "text": _cut(execution.text),
        "stdout": _cut(execution.stdout),
        "stderr": _cut(execution.stderr),
        "error": {"name": _cut(error.name), "value": _cut(error.value), "code": error.code} if error else None,
        "results": len(execution.results),
        "files": [row["path"] for row in _rows({"path": file.path} for file in execution.files)],
        "state": execution.state,
        "state_reason": _cut(execution.state_reason),
        "exit_code": execution.exit_code,
    }
    usage = execution.usage
    return RunRecord(
        execution.sandbox_id,
        execution.execution_count,
        now - usage.wall_s,
        request.code[:CODE_CHARS].encode("utf-8", "backslashreplace").decode(),  # half a surrogate pair is no text
        execution.status,
        summary,
        usage.wall_s,
        usage.cpu_s,
        usage.peak_memory_bytes,
        _rows(asdict(denial) for denial in execution.denials),
    )


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}…"


def _rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first of them: the code decides how long their texts are, and the history is not on its disk."""
    kept: list[dict[str, Any]] = []
    left = ROWS_CHARS
    for row in islice(rows, MOST_ROWS):
        plain = {name: _cut(value) if isinstance(value, str) else value for name, value in row.items()}
        left -= sum(len(value) for value in plain.values() if isinstance(value, str))
        if left < 0:
            break
        kept.append(plain)
    return kept
