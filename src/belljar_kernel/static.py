"""Attributes of live objects without running the user's code: no property, `__getattr__` or `__dir__` of theirs."""

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

from belljar_kernel.slots import class_bases, class_module, class_name, class_names, is_a, module_names

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


def attribute(value: Any, name: str, workspace: str) -> object:
    """What a dot and the name would give, or ABSENT when only the user's code could tell."""
    if is_a(value, ModuleType):
        return module_names(value).get(name, ABSENT)
    if is_library_object(value, workspace):
        try:
            return getattr(value, name)
        except Exception:
            return ABSENT
    own = _instance_dict(value)
    if own is not None and name in own:
        return own[name]
    bases = class_bases(value) if is_a(value, type) else class_bases(type(value))
    for base in bases:
        found = class_names(base).get(name, ABSENT)
        if found is not ABSENT:
            return ABSENT if isinstance(found, _PROPERTIES) or hasattr(type(found), "__get__") else found
    return ABSENT


def names(value: Any, workspace: str) -> list[str]:
    """The attribute names of a value."""
    if is_library(value, workspace) or is_library_object(value, workspace):
        try:
            return [name for name in dir(value) if type(name) is str]
        except Exception:
            pass
    if is_a(value, ModuleType):
        return [name for name in module_names(value) if type(name) is str]
    found: set[str] = set()
    for base in (*class_bases(type(value)), *(class_bases(value) if is_a(value, type) else ())):
        found.update(name for name in class_names(base) if type(name) is str)
    found.update(name for name in _instance_dict(value) or () if type(name) is str)
    return sorted(found)


def kind(value: Any, name: str) -> str:
    """What an attribute is, in the words of the protocol."""
    found: object = ABSENT
    if is_a(value, ModuleType):
        found = module_names(value).get(name, ABSENT)
    else:
        own = _instance_dict(value)
        bases = class_bases(value) if is_a(value, type) else class_bases(type(value))
        if own is not None and name in own:
            found = own[name]
        else:
            found = next((class_names(base)[name] for base in bases if name in class_names(base)), ABSENT)
    return kind_of(found)


def kind_of(value: object) -> str:
    """What a value is, in the words of the protocol."""
    if is_a(value, ModuleType):
        return "module"
    if is_a(value, type):
        return "class"
    if is_a(value, *_FUNCTIONS):
        return "function"
    if is_a(value, *_PROPERTIES):
        return "property"
    # Functions of compiled libraries have classes of their own, such as numpy.ufunc.
    return "function" if class_name(type(value)) in ("ufunc", "cython_function_or_method") else "variable"


def is_library_object(value: object, workspace: str) -> bool:
    """Whether the value's class is one of a well-known library, whose properties may be asked."""
    module = class_module(type(value)) if not is_a(value, type) else None
    if type(module) is not str:
        return False
    top = module.partition(".")[0]
    if top not in _LIBRARIES:
        return False
    home = sys.modules.get(module)
    if home is None or not is_library(home, workspace):
        return False
    return module_names(home).get(class_name(type(value))) is type(value)


def is_library(module: Any, workspace: str) -> bool:
    """Whether a module is part of Python or of a package, and not the user's own."""
    if not is_a(module, ModuleType):
        return False
    names = module_names(module)
    file = names.get("__file__")
    if type(file) is str:
        return not file.startswith(workspace + "/")
    return names.get("__name__") in sys.builtin_module_names


def _instance_dict(value: Any) -> dict[str, Any] | None:
    if is_a(value, type):
        return None
    for base in class_bases(type(value)):
        slot = class_names(base).get("__dict__")
        if slot is not None:
            if type(slot) is not GetSetDescriptorType:
                return None  # a property of the user's in its place
            own = slot.__get__(value)
            return own if type(own) is dict else None
    return None
