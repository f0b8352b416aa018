"""Classes of well-known libraries, only when the code has loaded them and only the real ones. Imports nothing."""

from __future__ import annotations

import sys
from types import ModuleType

from belljar_kernel.slots import class_bases, class_names, is_a, module_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def loaded(module: str) -> dict[str, Any] | None:
    """The names in a module that is loaded; asks the module nothing."""
    found = sys.modules.get(module)
    return module_names(found) if found is not None and is_a(found, ModuleType) else None


def loaded_class(module: str, name: str) -> type | None:
    """A class of a loaded module."""
    names = loaded(module)
    found = names.get(name) if names is not None else None
    return found if isinstance(found, type) else None


def is_exactly(value: object, module: str, *names: str) -> bool:
    """Whether the value's class is one of these, and no subclass of them."""
    kind = type(value)
    return any(kind is loaded_class(module, name) for name in names)


def is_kind_of(value: object, module: str, name: str) -> bool:
    """Whether the value's class is this one or made from it; never asks the value."""
    kind = loaded_class(module, name)
    return kind is not None and any(base is kind for base in class_bases(type(value)))


def class_attribute(value: object, name: str) -> object:
    """What the value's class says for a name, without running a descriptor; None when it says nothing."""
    for base in class_bases(type(value)):
        found = class_names(base).get(name)
        if found is not None:
            return found
    return None
