"""The names that the code has made, described without running any of it: exact types by their own slots, others by class name."""

from __future__ import annotations

from types import ModuleType

from belljar_kernel.genuine import is_exactly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_PREVIEW = 100
_LISTED = 2000
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_type_name = type.__dict__["__name__"].__get__


def variables(namespace: dict[str, Any], own_names: Collection[str]) -> list[dict[str, Any]]:
    """The variables by name; modules, private names and the kernel's own are left out."""
    names = sorted(name for name in namespace if type(name) is str and not name.startswith("_") and name not in own_names)
    shown = [name for name in names if not issubclass(type(namespace[name]), ModuleType)]
    return [_describe(name, namespace[name]) for name in shown[:_LISTED]]


def _describe(name: str, value: object) -> dict[str, Any]:
    shape = _shape(value)
    return {
        "name": name,
        "type": str(_type_name(type(value))),
        "preview": _preview(value),
        "size": len(value) if type(value) in _SIZED else _product(shape),  # type: ignore[arg-type]
        "shape": shape,
    }


def _preview(value: object) -> str | None:
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return repr(value)
    if kind is int:
        return int.__repr__(value) if value.bit_length() <= 1000 else None  # type: ignore[arg-type, attr-defined]
    if kind is complex:
        return repr(value)
    if kind is str or kind is bytes:
        text = repr(value[:_PREVIEW])  # type: ignore[index]
        return text if len(value) <= _PREVIEW else f"{text}…"  # type: ignore[arg-type]
    return None


def _shape(value: Any) -> list[int] | None:
    try:
        if is_exactly(value, "numpy", "ndarray") or is_exactly(value, "pandas", "DataFrame", "Series"):
            return [int(length) for length in value.shape]
    except Exception:
        pass  # not the real numpy or pandas
    return None


def _product(shape: list[int] | None) -> int | None:
    if shape is None:
        return None
    size = 1
    for length in shape:
        size *= length
    return size
