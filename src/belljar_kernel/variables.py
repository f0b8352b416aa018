"""The names that the code has made, described without running any of it."""

from __future__ import annotations

import sys
from types import ModuleType

from belljar_kernel.genuine import is_exactly
from belljar_kernel.slots import class_name, is_a, is_exact
from belljar_kernel.static import is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_PREVIEW = 100
_LISTED = 2000
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def variables(namespace: dict[str, Any], own_names: Collection[str], workspace: str) -> list[dict[str, Any]]:
    """The variables by name; modules, private names and the kernel's own are left out."""
    names = [name for name in list(namespace) if type(name) is str and not name.startswith("_")]
    shown = [name for name in sorted(names) if name not in own_names and not is_a(namespace[name], ModuleType)]
    return [_describe(name, namespace[name], workspace) for name in shown[:_LISTED]]


def _describe(name: str, value: Any, workspace: str) -> dict[str, Any]:
    shape = _shape(value, workspace)
    return {
        "name": name,
        "type": class_name(type(value)),
        "preview": _preview(value),
        "size": len(value) if is_exact(value, *_SIZED) else _product(shape),
        "shape": shape,
    }


def _preview(value: Any) -> str | None:
    kind = type(value)
    if value is None or is_exact(value, bool, float, complex) or (kind is int and value.bit_length() <= 1000):
        return repr(value)
    if kind is str or kind is bytes:
        text = repr(value[:_PREVIEW])
        return text if len(value) <= _PREVIEW else f"{text}…"
    return None


def _shape(value: Any, workspace: str) -> list[int] | None:
    for library, names in (("numpy", ("ndarray",)), ("pandas", ("DataFrame", "Series"))):
        if is_exactly(value, library, *names) and is_library(sys.modules[library], workspace):
            try:
                return [int(length) for length in value.shape]
            except Exception:
                return None  # not the real library after all
    return None


def _product(shape: list[int] | None) -> int | None:
    if shape is None:
        return None
    size = 1
    for length in shape:
        size *= length
    return size
