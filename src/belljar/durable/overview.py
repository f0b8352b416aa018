"""The durable sandboxes of this installation, seen from outside: from the store and from hosts that live. Blocks."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from typing import Any

from belljar.durable import control_socket
from belljar.durable.ledger import truly
from belljar.durable.lock import HostLock, is_held, pid_of
from belljar.errors import InvalidRequest, SandboxError, SandboxMissing, SandboxTaken
from belljar.settings import Settings
from belljar.store.base import SandboxRecord, Store

SHORTEST_ID = 4
TRIES, PAUSE_S = 4, 0.2  # a sandbox may change hands while it is looked at


class Overview:
    """Shows an operator the sandboxes of this installation, and closes them. An id is looked for at one owner only.

    `store` is None when nothing was ever stored.
    """

    def __init__(self, settings: Settings, store: Store | None) -> None:
        self._settings = settings
        self._store = store
        self._answers: dict[tuple[str, str], dict[str, Any]] = {}  # of hosts, by host and owner

    def sandboxes(self, owner: str | None = None, closed: bool = False) -> list[dict[str, Any]]:
        """The sandboxes of an owner, or of all owners, the newest first; `usage` is what a live sandbox uses now."""
        if self._store is None:
            return []
        return [self._described(self._truly(record)) for record in self._store.sandboxes(owner, closed)]

    def sandbox(self, owner: str, id: str, runs: int = 10) -> dict[str, Any]:
        """One sandbox with its checkpoints and its last runs.

        Raises:
            SandboxMissing: when there is none.
        """
        record = self._truly(self.find(owner, id))
        assert self._store is not None
        return {
            **self._described(record),
            "checkpoints": [asdict(each) for each in self._store.checkpoints(record.id)],
            "runs": [asdict(each) for each in self._store.runs(record.id, runs)],
        }

    def find(self, owner: str, id: str) -> SandboxRecord:
        """A sandbox of an owner, by its id or by enough of its beginning.

        Raises:
            InvalidRequest: when that may mean several.
            SandboxMissing: when this owner has none.
        """
        if len(id) < SHORTEST_ID:
            raise InvalidRequest(f"{id!r} is too short for an id; give at least its first {SHORTEST_ID} characters")
        rows = self._store.sandboxes(owner, closed=True) if self._store is not None else []
        found = [record for record in rows if record.id.startswith(id)]
        if len(found) > 1:
            raise InvalidRequest(f"{len(found)} sandboxes have an id that begins with {id!r}; give more of it")
        if not found:
            raise SandboxMissing(f"there is no durable sandbox {id!r}; `belljar sandboxes list` shows those there are")
        return found[0]

    def close(self, owner: str, id: str) -> str:
        """End a sandbox of an owner for good, wherever it lives; its whole id.

        Raises:
            SandboxError: when its host does not answer, or the store cannot be used.
        """
        record = self.find(owner, id)
        for number in range(TRIES):
            if record.state == "closed":
                break
            time.sleep(number * PAUSE_S)
            if record.host is not None and is_held(self._settings.state_dir, record.host):
                request = {"act": "close", "owner": record.owner, "id": record.id}
                answer = control_socket.ask(self._settings.state_dir, record.host, request)
                if answer is None:
                    raise SandboxTaken(
                        f"sandbox {record.id} is live in another process (pid {pid_of(record.host)}), which does not "
                        "answer; end that process, then close the sandbox again"
                    )
                if "error" in answer:
                    raise SandboxError(f"its host could not close it: {answer['error']}")
            else:
                self._close_unowned(record)
            record = self.find(owner, record.id)
        if record.state != "closed":
            raise SandboxTaken(f"sandbox {record.id} is just waking or falling asleep, and is not closed; try again")
        return record.id

    def _close_unowned(self, record: SandboxRecord) -> None:
        """Close a sandbox that no host has. Claim it first, so that no host wakes it meanwhile."""
        assert self._store is not None
        lock = HostLock.take(self._settings.state_dir)
        try:
            if self._store.claim(record.id, lock.name, record.host):
                self._store.close_sandbox(record.id, "`belljar sandboxes close` ended it")
        finally:
            lock.release()

    def _truly(self, record: SandboxRecord) -> SandboxRecord:
        return truly(record, partial(is_held, self._settings.state_dir))

    def _described(self, record: SandboxRecord) -> dict[str, Any]:
        usage = self._status(record.host, record.owner).get(record.id) if record.host is not None else None
        return {**asdict(record), "usage": usage}

    def _status(self, host: str, owner: str) -> dict[str, Any]:
        """What a host says of an owner's live sandboxes, by their ids."""
        key = host, owner
        if key not in self._answers:
            request = {"act": "status", "owner": owner}
            answer = control_socket.ask(self._settings.state_dir, host, request) or {}
            self._answers[key] = answer.get("sandboxes", {})
        return self._answers[key]
