"""Errors of Belljar as plain JSON data, and back to the very class. What the code of a user did is never among them."""

from __future__ import annotations

from typing import Any

from belljar.errors import SandboxError
from belljar.execution import Execution
from belljar.health import EngineHealth
from belljar.plain import from_plain, to_plain

DETAILS: dict[str, Any] = {"retry_after_s": float, "health": EngineHealth | None, "execution": Execution}


def classes() -> dict[str, type[SandboxError]]:
    """The class of every code."""
    found: dict[str, type[SandboxError]] = {}
    pending: list[type[SandboxError]] = [SandboxError]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if "code" in vars(kind):
            found[kind.code] = kind
    return found


def failure_to_plain(error: SandboxError) -> dict[str, Any]:
    """The error as JSON data: its code, its text, what to make of it, and what it carries."""
    carried = {name: to_plain(getattr(error, name)) for name in error.details}
    return {
        "code": error.code,
        "detail": str(error),
        "retryable": error.retryable,
        "status": error.status,
        **carried,
    }


def failure_from_plain(data: object) -> SandboxError:
    """The error in JSON data. One whose code this Belljar does not know is a SandboxError with that code.

    Raises:
        InvalidRequest: when it is none.
    """
    fields = from_plain(dict[str, Any], data, "an error")
    code, detail = from_plain(str, fields.get("code"), "code"), from_plain(str, fields.get("detail"), "detail")
    kind = classes().get(code, SandboxError)
    error = kind.__new__(kind, detail)
    error.args = (detail,)
    if kind.code != code:
        error.code = code
        error.retryable = from_plain(bool, fields.get("retryable"), "retryable")
        error.status = from_plain(int, fields.get("status"), "status")
    for name in kind.details:
        setattr(error, name, from_plain(DETAILS[name], fields.get(name), name, strict=False))
    return error
