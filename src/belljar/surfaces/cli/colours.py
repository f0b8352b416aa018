"""Colour for errors on a terminal. Only adds colour: the characters stay as the code wrote them."""

from __future__ import annotations

import os

_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def paint_error(text: str) -> str:
    """Tracebacks highlighted, other error output in red; as it is when the user wants no colour."""
    if os.environ.get("NO_COLOR") or not text.strip():
        return text
    if not text.startswith("Traceback (most recent call last)"):
        return f"{_RED}{text}{_PLAIN}"
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import PythonTracebackLexer

    painted: str = highlight(text, PythonTracebackLexer(stripnl=False, ensurenl=False), TerminalFormatter())
    return painted
