"""What the history keeps of a run is bounded, whatever the code did."""

from __future__ import annotations

import json
from dataclasses import asdict

from belljar.durable.history import run_record
from belljar.execution import ChangedFile, Denial, Execution, ExecutionError
from belljar.service.base import RunRequest

LONG = "\N{BELL}" * 5000


def test_a_run_that_did_as_much_as_it_could_takes_a_bounded_row():
    execution = Execution(sandbox_id="id", execution_count=1)
    execution.logs.stdout, execution.logs.stderr = [LONG], [LONG]
    execution.error = ExecutionError(LONG, LONG, LONG, None, "RUNTIME_ERROR")
    execution.files = [ChangedFile(LONG[:4096], 1, "text/plain")] * 1000
    execution.denials = [Denial(LONG, LONG, LONG, LONG, LONG)] * 1000
    record = run_record(RunRequest("x" * (8 << 20), 1.0), execution, 0.0)
    assert len(json.dumps(asdict(record), ensure_ascii=False)) < 100_000
    assert len(record.summary["files"]) == 4


def test_an_ordinary_run_is_kept_whole():
    execution = Execution(sandbox_id="id", execution_count=1)
    execution.files = [ChangedFile(f"{number}.csv", 1, "text/csv") for number in range(50)]
    execution.denials = [Denial("network", "example.org:443", "no such rule", "add it", "proxy")]
    record = run_record(RunRequest("x = 1", 1.0), execution, 0.0)
    assert record.summary["files"] == [f"{number}.csv" for number in range(50)]
    assert record.denials == [asdict(execution.denials[0])]
