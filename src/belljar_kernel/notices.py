"""Warnings and thread errors in the words of the rest: `main.py` for code of any run, user frames only."""

from __future__ import annotations

import linecache

from belljar_kernel import source, tracebacks
from belljar_kernel.slots import is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def patch_warnings(module: Any) -> None:
    """Show the code of runs as `main.py`, with its source line."""
    original = module.formatwarning

    def formatwarning(message: Any, category: Any, filename: str, lineno: int, line: str | None = None) -> str:
        if source.is_cell(filename):
            line = linecache.getline(filename, lineno) if line is None else line
            filename = source.SHOWN
        return str(original(message, category, filename, lineno, line))

    module.formatwarning = formatwarning


def patch_threading(module: Any, workspace: str, complain: Callable[[str], None]) -> None:
    """Show an exception that ended a thread as one that ended the code is shown."""

    def excepthook(arguments: Any) -> None:
        error = arguments.exc_value
        if error is not None and not is_a(error, SystemExit):
            name = getattr(arguments.thread, "name", None)
            complain(f"Exception in thread {name}:\n{tracebacks.render(error, workspace)}")

    module.excepthook = module.__excepthook__ = excepthook
