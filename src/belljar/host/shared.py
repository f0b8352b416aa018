"""What all sandboxes of a host share: bounds, memories and the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from belljar.host.budget import Budget
from belljar.host.journal import Journal
from belljar.host.sandbox_packages import FailedImports
from belljar.host.source_builds import SourceBuilds

MOST_OVERFLOW = 256 << 20  # bytes of output over the caps of runs that are on
MOST_STATE = 2 << 30  # bytes of states that have left their sandboxes and are not written yet


@dataclass(frozen=True)
class Shared:
    """Collaborators that every session of a host gets."""

    journal: Journal
    sources: SourceBuilds
    max_queue: int
    now: Callable[[], float] = time.time
    failed_imports: FailedImports = field(default_factory=FailedImports)
    overflow: Budget = field(default_factory=lambda: Budget(MOST_OVERFLOW))
    states: Budget = field(default_factory=lambda: Budget(MOST_STATE))
