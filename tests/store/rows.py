"""Rows for the tests of stores."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

from belljar import Limits, Policy
from belljar.store.base import CheckpointRecord, RunRecord, SandboxRecord


def sandbox(**changes: object) -> SandboxRecord:
    record = SandboxRecord(str(uuid.uuid4()), "native", 1.5, 2.5, "ann", "name", "3.12", ("rich==14.0.0",),
                           Limits(memory_mb=128), Policy(network=["a.example"], mounts={"/d": "/m"}))  # fmt: skip
    return replace(record, **changes)


def checkpoint(of: SandboxRecord, **changes: object) -> CheckpointRecord:
    record = CheckpointRecord(str(uuid.uuid4()), of.id, time.time(), 3, 4, "digest", {"lock": "cannot be pickled"})
    return replace(record, **changes)


def run(of: SandboxRecord, count: int) -> RunRecord:
    denials = [{"kind": "network", "target": "b.example"}]
    return RunRecord(of.id, count, 1.0, f"x = {count}", "ok", {"text": "1"}, 0.1, 0.05, 1 << 20, denials)
