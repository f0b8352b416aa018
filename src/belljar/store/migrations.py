"""The tables of the embedded store, as numbered steps. Append only: a step that was released never changes."""

from __future__ import annotations

STEPS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sandboxes (
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT, engine TEXT NOT NULL, python TEXT,
            packages TEXT NOT NULL, limits TEXT NOT NULL, policy TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('live', 'asleep', 'closed')), host TEXT, reason TEXT,
            created REAL NOT NULL, last_used REAL NOT NULL)""",
        "CREATE INDEX sandboxes_by_host ON sandboxes (host) WHERE host IS NOT NULL",
        """CREATE TABLE checkpoints (
            id TEXT PRIMARY KEY, sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
            created REAL NOT NULL, count INTEGER NOT NULL, size INTEGER NOT NULL, content TEXT NOT NULL,
            skipped TEXT NOT NULL)""",
        "CREATE INDEX checkpoints_by_sandbox ON checkpoints (sandbox_id, created)",
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY, sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
            count INTEGER NOT NULL, started REAL NOT NULL, code TEXT NOT NULL, status TEXT NOT NULL,
            summary TEXT NOT NULL, wall_s REAL NOT NULL, cpu_s REAL NOT NULL, peak_memory_bytes INTEGER NOT NULL,
            denials TEXT NOT NULL)""",
        "CREATE INDEX runs_by_sandbox ON runs (sandbox_id, number)",
    ),
)
