"""Text on its way to a terminal: what Belljar says is one printable line; what the code wrote goes out untouched."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text on one line, with what could steer a terminal spelled out."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(text.splitlines()))


def to_bytes(text: str) -> bytes:
    """The bytes that the code wrote: UTF-8, escaped bytes as themselves, other lone surrogates spelled out."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")
