"""How deeply values are nested, found out without recursion: WebAssembly's Python does not survive a full C stack."""

from __future__ import annotations

import gc
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

DEEPEST = 1000  # where CPython gives up by itself, and WebAssembly still works
IS_FRAGILE = sys.platform == "emscripten"
_LEAVES = (str, bytes, bytearray, int, float, complex, type, ModuleType, BuiltinFunctionType)


def is_too_deep(value: Any) -> bool:
    """Whether pickling it, in the order in which pickle goes about it, would go down further than is safe."""
    seen: set[int] = set()
    path: list[Iterator[Any]] = [iter((value,))]
    while path:
        for child in path[-1]:
            if id(child) not in seen and not issubclass(type(child), _LEAVES):
                seen.add(id(child))
                path.append(iter(_parts_of(child)))
                break
        else:
            path.pop()
        if len(path) > DEEPEST:
            return True
    return False


def _parts_of(value: Any) -> Iterable[Any]:
    """What a value holds; of a container in its own order, which decides how deep pickle gets."""
    kind = type(value)
    if kind is list or kind is tuple:
        return list(value)
    if kind is dict:
        return [part for pair in value.items() for part in pair]
    if kind is FunctionType:
        return [value.__closure__, value.__defaults__, value.__kwdefaults__]
    return gc.get_referents(value)
