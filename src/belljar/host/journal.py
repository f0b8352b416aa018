"""What a host reports of its sandboxes: counters, and log records that carry the ids. Configures no logging."""

from __future__ import annotations

import json
import logging
from collections import Counter
from typing import Any

from belljar.execution import Execution

logger = logging.getLogger("belljar")


class Journal:
    """Counts every event of a host by its name, and logs it with what it is about."""

    def __init__(self, is_logged: bool = True) -> None:
        self.counters: Counter[str] = Counter()
        self._is_logged = is_logged

    def tell(self, event: str, sandbox_id: str | None = None, *, level: int = logging.INFO, **facts: Any) -> None:
        """Count and log an event. `extra` of the log record has `event`, `sandbox_id` and the facts as fields."""
        self.counters[event] += 1
        self._log(event, sandbox_id, level, facts)

    def _log(self, event: str, sandbox_id: str | None, level: int, facts: dict[str, Any]) -> None:
        if self._is_logged and logger.isEnabledFor(level):
            words = [event, *([f"sandbox={sandbox_id}"] if sandbox_id else [])]
            words += [f"{name}={_word(value)}" for name, value in facts.items()]
            extra = {"event": event, "sandbox_id": sandbox_id, **facts}
            logger.log(level, "%s", " ".join(words), extra=extra)

    def warn(self, event: str, sandbox_id: str | None, failure: Exception) -> None:
        """Count and log a failure of work in the background, which has no caller to raise it to."""
        self.tell(event, sandbox_id, level=logging.WARNING, why=str(failure))

    def ran(self, execution: Execution) -> None:
        """Count and log a run by how it ended. `execution_id` is the sandbox's id and the number of the run in it."""
        self.counters[f"runs_{execution.status}"] += 1
        if self._is_logged and logger.isEnabledFor(logging.INFO):
            facts = {
                "execution_id": f"{execution.sandbox_id}/{execution.execution_count}",
                "status": execution.status,
                "state": execution.state,
                "wall_s": round(execution.usage.wall_s, 6),
                "cpu_s": round(execution.usage.cpu_s, 6),
                "peak_memory_bytes": execution.usage.peak_memory_bytes,
            }
            self._log("run", execution.sandbox_id, logging.INFO, facts)


def _word(value: object) -> str:
    """A value as one word: it is quoted where it could look like another field or another line."""
    text = str(value)
    return text if text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
