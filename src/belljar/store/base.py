"""The contract of a store, and the rows it has. Plain data; every call blocks, so none is made on the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from belljar.limits import Limits
from belljar.policy import Policy

Life = Literal["live", "asleep", "closed"]


@dataclass(frozen=True)
class SandboxRecord:
    """A durable sandbox. `host` names the one that has it while it is live."""

    id: str
    engine: str
    created: float
    last_used: float
    owner: str = ""
    name: str | None = None
    python: str | None = None
    packages: tuple[str, ...] = ()  # what it has beyond the preinstalled set
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    state: Life = "asleep"
    host: str | None = None
    reason: str | None = None  # why it is not live any more, when that was not its own wish


@dataclass(frozen=True)
class CheckpointRecord:
    """A saved state of a durable sandbox, `count` runs after its creation."""

    id: str
    sandbox_id: str
    created: float
    count: int
    size: int
    content: str  # a digest of what was saved, to see whether anything has changed
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """What one run was and did, cut to a bound."""

    sandbox_id: str
    count: int
    started: float
    code: str
    status: str
    summary: dict[str, Any]
    wall_s: float
    cpu_s: float
    peak_memory_bytes: int
    denials: list[dict[str, Any]] = field(default_factory=list)


class Store(Protocol):
    """Keeps the records of durable sandboxes, their checkpoints and their runs. Several processes may use it.

    Every method raises StoreFailed when it could not do what it says; nothing of it is done then, and another try may
    work.
    """

    def add_sandbox(self, record: SandboxRecord) -> None:
        """Add the record of a new sandbox."""

    def sandbox(self, id: str, owner: str | None = None) -> SandboxRecord | None:
        """The sandbox with this id, if it belongs to this owner; None stands for any owner."""

    def sandboxes(self, owner: str | None = None, closed: bool = False) -> list[SandboxRecord]:
        """All sandboxes, or those of an owner, the newest first; closed ones only when asked for.

        A row that makes no sense is left out: it costs no other.
        """

    def claim(self, id: str, host: str, former: str | None) -> bool:
        """Make a sandbox live on a host, unless it was closed, or another host than the former one has it meanwhile."""

    def update_sandbox(self, id: str, last_used: float, packages: tuple[str, ...]) -> None:
        """Write down what changes while a sandbox lives."""

    def release(self, host: str, reason: str | None = None, id: str | None = None) -> list[str]:
        """Make what a host has live fall asleep, all or one; the ids of those."""

    def close_sandbox(self, id: str, reason: str | None = None) -> None:
        """End a sandbox for good: its checkpoints go, its row and its history stay for a while."""

    def remove_sandbox(self, id: str) -> None:
        """Remove a sandbox that did not start, with all that is stored of it."""

    def add_checkpoint(self, record: CheckpointRecord, data: bytes, keep: int) -> None:
        """Add one, whole or not at all, and remove all but the newest so many."""

    def confirm_checkpoint(self, id: str, count: int) -> None:
        """Note that a checkpoint is also the state after so many runs, since nothing has changed."""

    def checkpoints(self, sandbox_id: str) -> list[CheckpointRecord]:
        """Those of a sandbox, the newest first."""

    def read_checkpoint(self, record: CheckpointRecord) -> bytes:
        """Its bytes, as they are. The caller checks the signature before it uses them.

        Raises:
            CheckpointRefused: when they are gone.
        """

    def add_run(self, record: RunRecord, keep: int) -> None:
        """Add one, and remove all but the newest so many of its sandbox."""

    def runs(self, sandbox_id: str, limit: int) -> list[RunRecord]:
        """The last ones of a sandbox, the newest first."""

    def prune(self, closed_before: float) -> None:
        """Forget what was closed before that time, and bytes that no row names any more."""

    def close(self) -> None:
        """Let go of it. Idempotent."""
