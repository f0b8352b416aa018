"""Text that came from inside and is shown in terminals and logs."""

from __future__ import annotations


def plain(text: object, longest: int) -> str:
    """One line without control characters; empty when it is no text."""
    return "".join(char if char.isprintable() else "?" for char in text[:longest]) if isinstance(text, str) else ""
