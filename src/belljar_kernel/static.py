"""Attributes of live objects without running the user's code: no properties, no `__getattr__`, no `__dir__` of theirs."""

from __future__ import annotations

import sys
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ABSENT = object()
_FUNCTIONS = (
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    MethodDescriptorType,
    WrapperDescriptorType,
    ClassMethodDescriptorType,
    staticmethod,
    classmethod,
)
_PROPERTIES = (property, GetSetDescriptorType, MemberDescriptorType)
_LIBRARIES = ("builtins", "numpy", "pandas", "polars", "matplotlib", "datetime", "collections", "decimal", "pathlib")
_module_dict = ModuleType.__dict__["__dict__"].__get__
_type_dict = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_type_module = type.__dict__["__module__"].__get__


def attribute(value: object, name: str, workspace: str) -> object:
    """What a dot and the name would give, or ABSENT when only the user's code could tell."""
    if issubclass(type(value), ModuleType):
        return _module_dict(value).get(name, ABSENT)
    if is_library_object(value, workspace):
        try:
            return getattr(value, name)
        except Exception:
            return ABSENT
    own = _instance_dict(value)
    if own is not None and name in own:
        return own[name]
    bases = _mro_of(value) if issubclass(type(value), type) else _mro_of(type(value))
    for base in bases:
        found = _type_dict(base).get(name, ABSENT)
        if found is not ABSENT:
            return ABSENT if isinstance(found, _PROPERTIES) or hasattr(type(found), "__get__") else found
    return ABSENT


def names(value: object, workspace: str) -> list[str]:
    """The attribute names of a value."""
    if (issubclass(type(value), ModuleType) and _is_foreign(value, workspace)) or is_library_object(value, workspace):
        try:
            return [name for name in dir(value) if type(name) is str]
        except Exception:
            pass
    if issubclass(type(value), ModuleType):
        return [name for name in _module_dict(value) if type(name) is str]
    found: set[str] = set()
    for base in (*_mro_of(type(value)), *(_mro_of(value) if issubclass(type(value), type) else ())):
        found.update(name for name in _type_dict(base) if type(name) is str)
    found.update(name for name in _instance_dict(value) or () if type(name) is str)
    return sorted(found)


def kind(value: object, name: str) -> str:
    """What an attribute is, in the words of the protocol."""
    found: object = ABSENT
    if issubclass(type(value), ModuleType):
        found = _module_dict(value).get(name, ABSENT)
    else:
        own = _instance_dict(value)
        bases = _mro_of(value) if issubclass(type(value), type) else _mro_of(type(value))
        if own is not None and name in own:
            found = own[name]
        else:
            found = next((_type_dict(base)[name] for base in bases if name in _type_dict(base)), ABSENT)
    return kind_of(found)


def kind_of(value: object) -> str:
    """What a value is, in the words of the protocol."""
    if issubclass(type(value), ModuleType):
        return "module"
    if issubclass(type(value), type):
        return "class"
    if issubclass(type(value), _FUNCTIONS):
        return "function"
    if issubclass(type(value), _PROPERTIES):
        return "property"
    # Functions of compiled libraries have classes of their own, such as numpy.ufunc.
    return "function" if type(value).__name__ in ("ufunc", "cython_function_or_method") else "variable"


def is_library_object(value: object, workspace: str) -> bool:
    """Whether the value's class is one of a well-known library, whose properties may be asked."""
    module = _type_module(type(value)) if not issubclass(type(value), type) else None
    if type(module) is not str:
        return False
    top = module.partition(".")[0]
    if top not in _LIBRARIES:
        return False
    names = _module_dict(sys.modules[module]) if issubclass(type(sys.modules.get(module)), ModuleType) else {}
    return names.get(type(value).__name__) is type(value) and _is_foreign(sys.modules[module], workspace)


def _is_foreign(module: Any, workspace: str) -> bool:
    file = _module_dict(module).get("__file__")
    return module is not sys.modules.get("__main__") and not (type(file) is str and file.startswith(workspace + "/"))


def _instance_dict(value: object) -> dict[str, Any] | None:
    if issubclass(type(value), type):
        return None
    for base in _mro_of(type(value)):
        slot = _type_dict(base).get("__dict__")
        if slot is not None:
            if type(slot) is not GetSetDescriptorType:
                return None  # a property of the user's in its place
            own = slot.__get__(value)
            return own if type(own) is dict else None
    return None
