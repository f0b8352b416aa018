"""Checks what callers give before anything is sent, so that bad input gets a clear error and loses nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from belljar.errors import InvalidRequest, PathRefused
from belljar.policy import Policy
from belljar.settings import Settings
from belljar_kernel.protocol import CALL_BYTES, CALL_DEPTH, CALL_NAME_CHARS, WORKSPACE

Content = str | bytes

MAX_CODE_BYTES = 8 << 20
MAX_TEXT_BYTES = 8 << 20
MAX_NAME_CHARS = 1000
MAX_TOOLS = 256
MAX_PATH_BYTES, MAX_NAME_BYTES = 4096, 255

T = TypeVar("T")


def check_code(code: object) -> str:
    """Code that is text, not empty, and no larger than a run takes."""
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
    """None, or text that can be stored and shown in a line: short, and without half a surrogate pair."""
    text = check_text(what, given)
    if text is not None and len(text) > MAX_NAME_CHARS:
        raise InvalidRequest(f"{what} has {len(text):,} characters; at most {MAX_NAME_CHARS:,} are kept")
    if text is not None and not is_encodable(text):
        raise InvalidRequest(f"{what} cannot be written as UTF-8: {text[:100]!r}")
    return text


def check_tools(given: object) -> tuple[str, ...]:
    """Names that code may call: each as a name in Python, so that none is one of an engine's own, which have a dot."""
    if not isinstance(given, (tuple, list)):
        raise InvalidRequest(f"tools must be a list of names, not {type(given).__name__}")
    if len(given) > MAX_TOOLS:
        raise InvalidRequest(f"tools has {len(given):,} names; a sandbox may have {MAX_TOOLS}")
    for name in given:
        if not isinstance(name, str) or not name.isidentifier() or len(name) > CALL_NAME_CHARS:
            raise InvalidRequest(
                f"tools has {str(name)[:CALL_NAME_CHARS]!r}, which is no name that a function of Python may have; "
                f"use letters, digits and underscores, {CALL_NAME_CHARS} at most"
            )
    return tuple(dict.fromkeys(given))


def check_reply(value: Any, error: tuple[str, str] | None) -> None:
    """The answer to a call out of a run: plain JSON data, or the name and text of an error."""
    if error is not None and not (len(error) == 2 and all(isinstance(text, str) for text in error)):
        raise InvalidRequest(f"the error of a reply must be a name and a text, not {str(error)[:100]}")
    content = check_json("the value of a reply", value) if error is None else error
    size = len(json.dumps(content))
    if size > CALL_BYTES:
        raise InvalidRequest(
            f"a reply has {size:,} bytes as JSON; at most {CALL_BYTES:,} are sent. Write more into a file"
        )
    level = [content]
    for _ in range(CALL_DEPTH):
        level = [each for each in level if isinstance(each, (dict, list, tuple))]
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    if level:
        raise InvalidRequest(f"the value of a reply is nested deeper than {CALL_DEPTH} levels")


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


def check_id(id: object) -> str:
    """Return the id of a sandbox, written as UUIDs are."""
    try:
        return str(uuid.UUID(check_text("id", id)))
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequest(f"id must be a UUID, not {str(id)[:100]!r}") from None


def checked_policy(policy: Policy, settings: Settings) -> Policy:
    """The policy with requirements and folders as they are understood.

    Raises:
        InvalidRequest: for an entry that has no clear meaning, or that the settings do not allow.
    """
    if not isinstance(policy.packages, str):
        policy = replace(policy, packages=checked_requirements(policy.packages, settings, "Policy(packages=...)"))
    if policy.network:
        from belljar.egress.rules import Rules

        Rules.parse(policy.network)
    if policy.mounts:
        from belljar.mounts import checked_mounts

        policy = replace(policy, mounts=checked_mounts(policy.mounts, settings))
    return policy


def checked_requirements(given: object, settings: Settings, what: str = "packages") -> tuple[str, ...]:
    """Requirements as they are understood.

    Raises:
        InvalidRequest: for what does not name a package.
    """
    if given is None or given == () or given == []:
        return ()
    from belljar.packages.requirements import check

    return check(given, what, settings.package_sources)


def plain_path(path: str) -> str:
    """A path within the workspace, without any way out of it.

    Raises:
        PathRefused: for everything else.
    """
    if not isinstance(path, str):
        raise PathRefused(f"a path must be a string, not {type(path).__name__}")
    inner = path.removeprefix(f"{WORKSPACE}/") if path.startswith("/") else path
    parts = [part for part in inner.split("/") if part not in ("", ".")]
    if inner.startswith("/"):
        raise PathRefused(f"{path!r} is outside {WORKSPACE}; name a file in it")
    if not parts:
        raise PathRefused(f"{path!r} names no file")
    if ".." in parts:
        raise PathRefused(f"{path!r} leaves the workspace; paths may not have '..'")
    if "\0" in path or ".." in path.replace("\\", "/").split("/"):
        raise PathRefused(f"{path!r} is not a path")
    encoded = [part.encode("utf-8", "surrogateescape") if is_encodable(part) else b"" for part in parts]
    if not all(encoded) or max(map(len, encoded)) > MAX_NAME_BYTES or len(b"/".join(encoded)) >= MAX_PATH_BYTES:
        raise PathRefused(f"the path {path[:80]!r} is too long, or cannot be written as bytes")
    return "/".join(parts)


def as_bytes(path: str, data: object) -> bytes:
    """Content as bytes; text as UTF-8."""
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as failure:
            raise InvalidRequest(f"the text for {path!r} cannot be written as UTF-8: {failure.reason}") from None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise InvalidRequest(f"the content of {path!r} must be text or bytes, not {type(data).__name__}")


def checked_files(files: Mapping[str, Content] | None) -> dict[str, bytes]:
    """Files to write before anything runs, all checked before the first is written."""
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise InvalidRequest(f"files must map paths to content, not {type(files).__name__}")
    return {plain_path(path): as_bytes(path, data) for path, data in files.items()}


def check_cursor(code: object, cursor: object) -> None:
    """Code to complete, and a place in it."""
    length = len(check_text("code", code) or "")
    if type(cursor) is not int or not 0 <= cursor <= length:
        raise InvalidRequest(f"cursor must be from 0 to {length}, not {str(cursor)[:100]}")


def is_encodable(text: str) -> bool:
    """Whether text can be written as bytes; those that Python itself read from bytes can."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
