"""The Events that answer one Request: in order, whole, and none after the final one."""

from __future__ import annotations

import os
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from belljar_kernel.interrupts import Interrupts

    Event = dict[str, Any]
    Emit = Callable[[Event], None]

_getpid = os.getpid


class Answer:
    """Open from a Request until its `done`. Any thread may send; a forked process may not."""

    def __init__(self, id: int, emit: Emit, flush: Callable[[], None], interrupts: Interrupts) -> None:
        self._id = id
        self._emit = emit
        self._flush = flush
        self._interrupts = interrupts
        self._lock = RLock()
        self._pid = _getpid()
        self._open = True

    def send(self, type: str, fields: Event) -> None:
        """Emit an Event, after the output that came before it; too late is dropped, as nobody waits for it.

        Raises:
            RuntimeError: in a forked process.
        """
        if _getpid() != self._pid:
            raise RuntimeError("only the process that runs the code can show results, not one that it forked")
        if type not in ("stdout", "stderr"):
            self._flush()
        with self._interrupts, self._lock:
            if self._open:
                self._emit({"type": type, "id": self._id, **fields})

    def finish(self, fields: Event) -> None:
        """Emit the final Event, whatever it takes."""
        self._flush()
        with self._interrupts, self._lock:
            self._open = False
            final = {"type": "done", "id": self._id}
            try:
                self._emit({**final, **fields})
            except (TypeError, ValueError, RecursionError, MemoryError) as error:
                self._emit({**final, **failure("KernelError", f"the answer could not be sent: {type(error).__name__}")})


def failure(name: str, value: str) -> Event:
    """What `done` carries when a Request could not be handled at all."""
    error = {"name": name, "value": value, "traceback": f"{name}: {value}\n", "line": None, "code": "RUNTIME_ERROR"}
    return {
        "status": "error",
        "error": error,
        "value": None,
        "exit_code": 1,
        "files": [],
        "truncated": False,
        "interrupted": False,
    }
