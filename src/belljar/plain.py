"""Values and errors as plain JSON data, and back. What comes from outside is checked against the types of its class."""

from __future__ import annotations

import base64
import dataclasses
import math
import reprlib
import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeGuard, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from belljar.errors import InvalidRequest

T = TypeVar("T")

SHOWN_CHARS = 100
_BRIEF = reprlib.Repr()  # Python 3.11 takes no arguments here
_BRIEF.maxlevel, _BRIEF.maxdict, _BRIEF.maxlist = 4, 4, 6
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 2 * SHOWN_CHARS

# Names that modules import for the type checker alone, and where those classes are.
LATE = {"CheckpointReport": "belljar.state.checkpoint", "EngineHealth": "belljar.health"}
NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    bytes: '{"base64": "…"}',
    types.NoneType: "null",
}


def to_plain(value: Any) -> Any:
    """The value as JSON data: objects by their fields, bytes as `{"base64": …}`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {name: to_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], data: object, what: str = "", *, strict: bool = True) -> T:
    """The value of a class in JSON data. `what` names it in messages.

    Fields that the class does not have are refused, or ignored when not `strict`: a newer Belljar may write more.

    Raises:
        InvalidRequest: naming the field, what it is, and what it should be.
    """
    return cast(T, _read(kind, data, what or getattr(kind, "__name__", "the value"), strict))


def _read(kind: Any, data: object, what: str, strict: bool) -> Any:
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return _read_fields(kind, data, what, strict)
    if kind is bytes:
        return _read_bytes(data, what)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_choice(inner, data, what, strict)
    if origin is Literal and any(data == word and type(data) is type(word) for word in inner):
        return data
    if origin in (list, tuple, Sequence) and isinstance(data, list):
        return _read_list(origin, inner, data, what, strict)
    if origin in (dict, Mapping) and _has_names(data):
        return {name: _read(inner[1], item, f"{what}[{_shown(name)}]", strict) for name, item in data.items()}
    if kind is float and type(data) in (int, float) and _is_finite(cast(float, data)):
        return data
    if kind in (str, int, bool, types.NoneType) and type(data) is kind:
        return data
    raise _refusal(_words(kind), data, what)


def _read_fields(kind: Any, data: object, what: str, strict: bool) -> Any:
    """An object of a dataclass, or a TypedDict."""
    if not _has_names(data):
        raise _refusal(_words(kind), data, what)
    hints, required = _fields_of(kind)
    unknown = [name for name in data if name not in hints]
    if unknown and strict:
        raise InvalidRequest(f"{what} has no {unknown[0][:SHOWN_CHARS]!r}; it has {', '.join(hints)}")
    if missing := [name for name in required if name not in data]:
        raise InvalidRequest(f"{what} lacks {missing[0]!r}, {_words(hints[missing[0]])}")
    given = {name: _read(hints[name], item, f"{what}.{name}", strict) for name, item in data.items() if name in hints}
    return kind(**given)


def _read_choice(kinds: tuple[Any, ...], data: object, what: str, strict: bool) -> Any:
    """A value of one of several types; objects that name their type are judged by that type alone."""
    tag = data.get("type") if isinstance(data, dict) else None
    named = [kind for kind in kinds if is_typeddict(kind) and tag in get_args(_fields_of(kind)[0].get("type"))]
    candidates = named or [kind for kind in kinds if kind is not types.NoneType]
    if data is None and types.NoneType in kinds:
        return None
    if len(candidates) == 1:
        return _read(candidates[0], data, what, strict)
    for kind in candidates:
        try:
            return _read(kind, data, what, strict)
        except InvalidRequest:
            continue
    raise _refusal(_joined(candidates), data, what)


def _read_list(origin: Any, inner: tuple[Any, ...], data: list[Any], what: str, strict: bool) -> Any:
    is_fixed = origin is tuple and inner[-1] is not Ellipsis
    if is_fixed and len(data) != len(inner):
        raise InvalidRequest(f"{what} must be a list of {len(inner)}, not of {len(data)}")
    kinds = inner if is_fixed else inner[:1] * len(data)
    read = [
        _read(kind, item, f"{what}[{number}]", strict)
        for number, (kind, item) in enumerate(zip(kinds, data, strict=True))
    ]
    return read if origin is list else tuple(read)


def _is_finite(number: float) -> bool:
    """Whether it is a number that a float can hold."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _read_bytes(data: object, what: str) -> bytes:
    text = data.get("base64") if isinstance(data, dict) and len(data) == 1 else None
    if not isinstance(text, str):
        raise _refusal(_words(bytes), data, what)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidRequest(f"{what} is not base64: {_shown(text)}") from None


@cache
def _fields_of(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The types of all fields, and the names of those that have no default."""
    late = {name: getattr(import_module(module), name) for name, module in LATE.items()}
    hints = get_type_hints(kind, localns=late)
    if is_typeddict(kind):
        return hints, tuple(kind.__required_keys__)
    missing = dataclasses.MISSING
    fields = [field for field in dataclasses.fields(kind) if field.init]
    bare = tuple(field.name for field in fields if field.default is missing and field.default_factory is missing)
    return {field.name: hints[field.name] for field in fields}, bare


def _has_names(data: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(data, dict) and all(isinstance(name, str) for name in data)


def _refusal(wanted: str, data: object, what: str) -> InvalidRequest:
    return InvalidRequest(f"{what} must be {wanted}, not {_shown(data)}")


def _words(kind: Any) -> str:
    """A type in words; what JSON cannot hold is left out."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _joined(inner)
    if origin is Literal:
        return " or ".join(repr(word) for word in inner)
    if origin in (list, tuple, Sequence):
        return f"a list of {_words(inner[0]).partition(' ')[2]}s" if _words(inner[0]) else "a list"
    if origin in (dict, Mapping) or dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return "an object"
    return NAMES.get(kind, "")


def _joined(kinds: Iterable[Any]) -> str:
    return " or ".join(filter(None, map(_words, kinds)))


def _shown(data: object) -> str:
    text = _BRIEF.repr(data)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
