"""What objects really are, read from the interpreter's own slots, so that no code of theirs runs and none can lie."""

from __future__ import annotations

from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any

_type: Mapping[str, Any] = type.__dict__
_exception: Mapping[str, Any] = BaseException.__dict__
_module: Any = ModuleType.__dict__

class_name: Callable[[type], str] = _type["__name__"].__get__
class_module: Callable[[type], object] = _type["__module__"].__get__
class_names: Callable[[type], Mapping[str, Any]] = _type["__dict__"].__get__
class_bases: Callable[[type], tuple[type, ...]] = _type["__mro__"].__get__
module_names: Callable[[ModuleType], dict[str, Any]] = _module["__dict__"].__get__
traceback_of: Callable[[BaseException], TracebackType | None] = _exception["__traceback__"].__get__
cause_of: Callable[[BaseException], BaseException | None] = _exception["__cause__"].__get__
context_of: Callable[[BaseException], BaseException | None] = _exception["__context__"].__get__


def is_a(value: object, *kinds: type) -> bool:
    """isinstance() that never asks the object."""
    return issubclass(type(value), kinds)


def is_exact(value: object, *kinds: type) -> bool:
    """Whether the value's class is one of these; `in` would let a metaclass compare."""
    own = type(value)
    return any(own is kind for kind in kinds)


def slot_of(value: object, kind: type, name: str) -> Any:
    """A field that a builtin class keeps for its instances, such as the `errno` of an OSError."""
    return class_names(kind)[name].__get__(value)
