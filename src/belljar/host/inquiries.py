"""Questions about what is in a sandbox, beside its runs. Answers come from inside: odd rows are left out."""

from __future__ import annotations

from typing import Any

from belljar.execution import Completion, Variable
from belljar.host.session import Session

MAX_ROWS = 10_000
_NONE = type(None)


async def complete(session: Session, code: str, cursor: int) -> list[Completion]:
    """Completions of the code at the cursor."""
    done = await session.ask({"type": "complete", "code": code, "cursor": cursor})
    rows = _rows(done.get("completions"), {"text": (str,), "start": (int,), "end": (int,), "type": (str,)})
    return [Completion(**row) for row in rows if 0 <= row["start"] <= row["end"] <= len(code)]


async def variables(session: Session) -> list[Variable]:
    """The names that user code made."""
    done = await session.ask({"type": "variables"})
    kinds = {"name": (str,), "type": (str,), "preview": (str, _NONE), "size": (int, _NONE), "shape": (list, _NONE)}
    rows = _rows(done.get("variables"), kinds)
    return [Variable(**row) for row in rows if all(type(side) is int for side in row["shape"] or [])]


def _rows(given: object, kinds: dict[str, tuple[type, ...]]) -> list[dict[str, Any]]:
    """Rows with exactly these fields of exactly these types."""
    if not isinstance(given, list):
        return []
    return [
        {name: row.get(name) for name in kinds}
        for row in given[:MAX_ROWS]
        if isinstance(row, dict) and all(type(row.get(name)) in types for name, types in kinds.items())
    ]
