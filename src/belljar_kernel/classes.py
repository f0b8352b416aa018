"""Classes whose methods were generated, not written: dataclasses and named tuples are generated again, not copied."""

from __future__ import annotations

import collections
import sys
from types import FunctionType, MemberDescriptorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Spec = tuple[dict[str, Any], dict[str, dict[str, Any]]]  # the arguments of `dataclass`, and those of each `field`

_GENERATED_FILE = "<string>"  # of code that `dataclasses` made
_OF_ONE_VERSION = {"__static_attributes__", "__firstlineno__", "__classdictcell__"}
_TUPLE_NAMES = frozenset({*vars(collections.namedtuple("_", "")), *_OF_ONE_VERSION})
_ARGUMENTS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen", "match_args", "kw_only")
_FIELD_ARGUMENTS = ("default", "default_factory", "init", "repr", "hash", "compare", "metadata", "kw_only")
_tuples: dict[str, type] = {}


def taken_apart(kind: Any, names: dict[str, Any]) -> tuple[dict[str, Any], Spec | None]:
    """What is in a class; for a dataclass without what was generated, and with what it is generated from."""
    if "__dataclass_params__" not in vars(kind):
        return names, None
    from dataclasses import MISSING

    parameters, fields = vars(kind)["__dataclass_params__"], vars(kind)["__dataclass_fields__"]
    own = {name: fields[name] for name in names.get("__annotations__", ()) if name in fields}
    arguments = {name: getattr(parameters, name) for name in _ARGUMENTS if hasattr(parameters, name)}
    of_fields = {
        name: {what: value for what in _FIELD_ARGUMENTS if (value := getattr(field, what, MISSING)) is not MISSING}
        | {"metadata": dict(field.metadata)}
        for name, field in own.items()
        if field._field_type.name != "_FIELD_CLASSVAR"
    }
    written = {
        name: value for name, value in names.items() if not name.startswith("__dataclass_") and not _is_generated(value)
    }
    return written, (arguments, of_fields)


def set_class(kind: Any, state: tuple[dict[str, Any], Spec | None]) -> Any:
    """Give a class what is in it, and have generated what is not."""
    names, spec = state
    registered = names.pop("_abc_impl", ())
    for name, value in names.items():
        setattr(kind, name, value)
    for other in registered:
        kind.register(other)
    if spec is not None and "__dataclass_params__" not in vars(kind):
        _generate(kind, *spec)
    return kind


def named_tuple(kind: Any) -> tuple[Any, ...] | None:
    """How to keep a class that `namedtuple` made: as what it was made from. None for all others."""
    names = vars(kind)
    if kind.__bases__ != (tuple,) or type(names.get("_fields")) is not tuple or "_field_defaults" not in names:
        return None
    if kind.__module__ != "__main__" and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
        return None
    fields, defaults = names["_fields"], names["_field_defaults"]
    state = {
        name: value
        for name, value in names.items()
        if name not in _TUPLE_NAMES and name not in fields and not name.startswith("__annotat")
    }
    state |= {"__doc__": kind.__doc__, "__qualname__": kind.__qualname__}
    if annotations := getattr(kind, "__annotations__", None):
        state["__annotations__"] = dict(annotations)
    key = f"{kind.__qualname__} {id(kind)}"
    arguments = (key, kind.__name__, fields, [defaults[name] for name in fields if name in defaults], kind.__module__)
    return make_named_tuple, arguments, state, None, None, set_named_tuple


def make_named_tuple(key: str, name: str, fields: tuple[str, ...], defaults: list[Any], module: str) -> type:
    """A class of named tuples; the same one for the same key."""
    if key not in _tuples:
        _tuples[key] = collections.namedtuple(name, fields, defaults=defaults, module=module)
    return _tuples[key]


def set_named_tuple(kind: type, state: dict[str, Any]) -> None:
    """Give it what was added to it."""
    for name, value in state.items():
        setattr(kind, name, value)


def _is_generated(value: Any) -> bool:
    """Whether `dataclass` wrote this method, and will again."""
    value = getattr(value, "__wrapped__", value) if type(value) is FunctionType else value
    return type(value) is FunctionType and (
        value.__code__.co_filename == _GENERATED_FILE or value.__module__ == "dataclasses"
    )


def _generate(kind: Any, arguments: dict[str, Any], of_fields: dict[str, dict[str, Any]]) -> None:
    """Apply `dataclass` to a class that has been one."""
    from dataclasses import dataclass, field

    slots = {name: value for name, value in vars(kind).items() if type(value) is MemberDescriptorType}
    for name, given in of_fields.items():
        setattr(kind, name, field(**given))
    dataclass(**arguments)(kind)
    for name, value in slots.items():
        setattr(kind, name, value)
