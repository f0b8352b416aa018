"""A store in the memory of this process, for tests: several hosts may share it, and it ends with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from belljar.errors import CheckpointRefused, StoreFailed
from belljar.store.base import CheckpointRecord, RunRecord, SandboxRecord


class MemoryStore:
    """A Store for any number of threads. Nothing in it is ever written to a disk."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._sandboxes: dict[str, SandboxRecord] = {}
        self._checkpoints: dict[str, tuple[CheckpointRecord, bytes]] = {}  # the oldest first
        self._runs: dict[str, list[RunRecord]] = {}  # of each sandbox, the oldest first

    def add_sandbox(self, record: SandboxRecord) -> None:
        """Add the record of a new sandbox."""
        with self._lock:
            if record.id in self._sandboxes:
                raise StoreFailed(f"the store refused a row: there is a sandbox {record.id} already")
            self._sandboxes[record.id] = record

    def sandbox(self, id: str, owner: str | None = None) -> SandboxRecord | None:
        """The sandbox with this id, if it belongs to this owner."""
        found = self._sandboxes.get(id)
        return found if found is not None and owner in (None, found.owner) else None

    def sandboxes(self, owner: str | None = None, closed: bool = False) -> list[SandboxRecord]:
        """All sandboxes, or those of an owner, the newest first."""
        with self._lock:
            rows = [row for row in self._sandboxes.values() if owner in (None, row.owner)]
        return sorted((row for row in rows if closed or row.state != "closed"), key=lambda row: -row.created)

    def claim(self, id: str, host: str, former: str | None) -> bool:
        """Compare and swap the host of a sandbox."""
        with self._lock:
            found = self._sandboxes.get(id)
            if found is None or found.host != former or found.state == "closed":
                return False
            self._sandboxes[id] = replace(found, host=host, state="live", reason=None)
            return True

    def update_sandbox(self, id: str, last_used: float, packages: tuple[str, ...]) -> None:
        """Write down what changes while a sandbox lives."""
        self._change(id, last_used=last_used, packages=packages)

    def release(self, host: str, reason: str | None = None, id: str | None = None) -> list[str]:
        """Make what a host has live fall asleep."""
        with self._lock:
            live = [row for row in self._sandboxes.values() if row.host == host and row.state == "live"]
            released = [row.id for row in live if id in (None, row.id)]
            for each in released:
                self._change(each, host=None, state="asleep", reason=reason)
        return released

    def close_sandbox(self, id: str, reason: str | None = None) -> None:
        """End a sandbox for good."""
        with self._lock:
            self._forget_checkpoints(id)
            found = self._sandboxes.get(id)
            if found is not None and found.state != "closed":
                self._change(id, state="closed", host=None, reason=reason, last_used=self._now())

    def remove_sandbox(self, id: str) -> None:
        """Remove a sandbox that did not start."""
        with self._lock:
            self._forget_checkpoints(id)
            self._sandboxes.pop(id, None)
            self._runs.pop(id, None)

    def add_checkpoint(self, record: CheckpointRecord, data: bytes, keep: int) -> None:
        """Add one, and remove the oldest."""
        with self._lock:
            self._check_known(record.sandbox_id)
            self._checkpoints[record.id] = record, data
            for old in self.checkpoints(record.sandbox_id)[keep:]:
                del self._checkpoints[old.id]

    def confirm_checkpoint(self, id: str, count: int) -> None:
        """Note that a checkpoint is also the state after so many runs."""
        with self._lock:
            if id in self._checkpoints:
                record, data = self._checkpoints[id]
                self._checkpoints[id] = replace(record, count=count), data

    def checkpoints(self, sandbox_id: str) -> list[CheckpointRecord]:
        """Those of a sandbox, the newest first."""
        with self._lock:
            found = [record for record, _ in self._checkpoints.values() if record.sandbox_id == sandbox_id]
        return found[::-1]

    def read_checkpoint(self, record: CheckpointRecord) -> bytes:
        """Its bytes, as they are."""
        try:
            return self._checkpoints[record.id][1]
        except KeyError:
            raise CheckpointRefused(f"the bytes of checkpoint {record.id} are gone") from None

    def add_run(self, record: RunRecord, keep: int) -> None:
        """Add one, and remove the oldest."""
        with self._lock:
            self._check_known(record.sandbox_id)
            runs = self._runs.setdefault(record.sandbox_id, [])
            runs.append(record)
            del runs[:-keep]

    def runs(self, sandbox_id: str, limit: int) -> list[RunRecord]:
        """The last ones, the newest first."""
        with self._lock:
            return self._runs.get(sandbox_id, [])[::-1][:limit]

    def prune(self, closed_before: float) -> None:
        """Forget what was closed before that time."""
        with self._lock:
            rows = self.sandboxes(closed=True)
            for row in rows:
                if row.state == "closed" and row.last_used < closed_before:
                    self.remove_sandbox(row.id)

    def close(self) -> None:
        """Keep everything: another host may use this store."""

    def _change(self, id: str, **changes: object) -> None:
        with self._lock:
            if id in self._sandboxes:
                self._sandboxes[id] = replace(self._sandboxes[id], **changes)  # type: ignore[arg-type]

    def _forget_checkpoints(self, sandbox_id: str) -> None:
        for record in self.checkpoints(sandbox_id):
            del self._checkpoints[record.id]

    def _check_known(self, sandbox_id: str) -> None:
        if sandbox_id not in self._sandboxes:
            raise StoreFailed(f"the store refused a row: there is no sandbox {sandbox_id}")
