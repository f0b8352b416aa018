"""What callers give, checked before anything is sent: bad input gets a clear error and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from belljar.errors import InvalidRequest
from belljar.limits import check

MAX_CODE_BYTES = 8 << 20
MAX_TEXT_BYTES = 8 << 20
MAX_NAME_CHARS = 1000

T = TypeVar("T")


def check_code(code: object) -> str:
    """Code that is text, not empty, and of a size that somebody may have meant."""
    if not isinstance(code, str):
        raise InvalidRequest(f"code must be a string, not {type(code).__name__}")
    if not code.strip():
        raise InvalidRequest("code is empty; give at least one expression or statement")
    size = _size(code)
    if size > MAX_CODE_BYTES:
        raise InvalidRequest(
            f"code has {size:,} bytes; at most {MAX_CODE_BYTES:,} are run. Put data into files={{...}} instead"
        )
    return code


def check_timeout(given: object, default: float) -> float:
    """The time limit of one run."""
    return default if given is None else check("timeout_s", given)


def check_kind(what: str, given: object, kind: type[T]) -> T:
    """An object of that class; None is its default."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise InvalidRequest(f"{what} must be {kind.__name__}(...), not {type(given).__name__}")
    return given


def check_text(what: str, given: object) -> Any:
    """None, or text of a bounded size."""
    if given is None:
        return None
    if not isinstance(given, str):
        raise InvalidRequest(f"{what} must be a string, not {type(given).__name__}")
    if _size(given) > MAX_TEXT_BYTES:
        raise InvalidRequest(f"{what} is larger than {MAX_TEXT_BYTES:,} bytes; write it into a file of the workspace")
    return given


def check_name(what: str, given: object) -> Any:
    """The same, and text that can be stored and shown in a line: short, and no half of a surrogate pair."""
    text = check_text(what, given)
    if text is not None and len(text) > MAX_NAME_CHARS:
        raise InvalidRequest(f"{what} has {len(text):,} characters; at most {MAX_NAME_CHARS:,} are kept")
    if text is not None and not is_encodable(text):
        raise InvalidRequest(f"{what} cannot be written as UTF-8: {text[:100]!r}")
    return text


def check_json(what: str, given: Any) -> Any:
    """A value that can be sent as JSON."""
    try:
        text = json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as failure:
        raise InvalidRequest(f"{what} must be plain JSON data: {failure}") from None
    if len(text) > MAX_TEXT_BYTES:
        raise InvalidRequest(f"{what} is larger than {MAX_TEXT_BYTES:,} bytes; write it into a file of the workspace")
    return given


def check_environment(given: object) -> dict[str, str]:
    """Names and values that an environment can have."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"env must be a mapping of strings, not {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequest(f"env must map strings to strings; {name!r} does not")
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise InvalidRequest(f"env has a name or value that no environment can hold: {name!r}")
        if not is_encodable(name) or not is_encodable(value):
            raise InvalidRequest(f"env has a name or value that cannot be written as UTF-8: {name!r}")
    return dict(given)


def is_encodable(text: str) -> bool:
    """Whether text can be written as bytes; those that Python itself read from bytes can."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
