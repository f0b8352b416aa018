"""Objects to bytes and back, by value: cloudpickle, with functions that keep living in the namespace of the code.

The only module that knows cloudpickle, which lies beside the kernel in every sandbox and is the same in all of them.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from importlib import import_module
from types import CellType, CodeType, FunctionType

from belljar_kernel import travelling
from belljar_kernel.classes import named_tuple, set_class, taken_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 5
_cloudpickle: Any = import_module("belljar_inside.cloudpickle.cloudpickle")
_files = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO)
_Cached = type(functools.lru_cache(len))
_OF_ONE_VERSION = ("__annotations__", "__annotate_func__", "__annotations_cache__", "__static_attributes__",
                   "__firstlineno__", "__classdictcell__")  # fmt: skip
_namespace: dict[str, Any] = {}


class StatePickler(_cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles for a namespace: what is defined in it goes by value, what a library has by reference."""

    def __init__(self, file: Any, namespace: dict[str, Any]) -> None:
        super().__init__(file, PROTOCOL)
        self._namespace = namespace

    def reducer_override(self, value: Any) -> Any:
        """How to keep a value that pickle has no way of its own for, or not a good one."""
        kind = type(value)
        if kind is CodeType:
            return travelling.reduced(value)
        if kind is CellType:
            return _reduced_cell(value)
        if kind is FunctionType and value.__globals__ is self._namespace:
            return _reduced_function(value)
        if kind is _Cached and value.__module__ == "__main__":
            return make_cached, (value.__wrapped__, value.cache_parameters())
        if issubclass(kind, _files):
            raise pickle.PicklingError("an open file cannot be saved")
        if issubclass(kind, type):
            return named_tuple(value) or _portable_class(super().reducer_override(value), value)
        return super().reducer_override(value)


def load(file: Any, namespace: dict[str, Any]) -> Any:
    """What StatePickler wrote. Runs what it was told to run: only ever inside a sandbox."""
    global _namespace
    _namespace = namespace
    try:
        return pickle.Unpickler(file).load()
    finally:
        travelling.forget()


def make_function(code: CodeType, closure: tuple[CellType, ...] | None) -> FunctionType:
    """A function that lives in the namespace which is being restored."""
    if len(code.co_freevars) != len(closure or ()):
        raise travelling.CannotTravel(f"{code.co_name} closes over other names in this version of Python")
    return FunctionType(code, _namespace, code.co_name, None, closure)


def set_function(function: Any, state: dict[str, Any]) -> None:
    """Give a function all that is not in its code."""
    function.__dict__.update(state.pop("__dict__"))
    for name, value in state.items():
        if name != "__type_params__" or sys.version_info >= (3, 12):
            setattr(function, name, value)


def make_cached(function: FunctionType, parameters: dict[str, Any]) -> Any:
    """A function under `lru_cache`, with nothing in its cache."""
    return functools.lru_cache(**parameters)(function)


def make_cell() -> CellType:
    """A variable of a closure, still empty: what is in it may need the closure itself."""
    return CellType()


def set_cell(cell: CellType, content: tuple[Any]) -> None:
    """Fill it."""
    (cell.cell_contents,) = content


def _reduced_function(function: FunctionType) -> tuple[Any, ...]:
    state = {
        "__dict__": dict(function.__dict__),
        "__name__": function.__name__,
        "__qualname__": function.__qualname__,
        "__module__": function.__module__,
        "__doc__": function.__doc__,
        "__defaults__": function.__defaults__,
        "__kwdefaults__": function.__kwdefaults__,
        "__annotations__": _annotations(function),
    }
    if getattr(function, "__type_params__", ()):
        state["__type_params__"] = function.__type_params__  # type: ignore[attr-defined]
    return make_function, (function.__code__, function.__closure__), state, None, None, set_function


def _reduced_cell(cell: CellType) -> tuple[Any, ...]:
    try:
        content = (cell.cell_contents,)
    except ValueError:
        return make_cell, ()
    return make_cell, (), content, None, None, set_cell


def _portable_class(reduction: Any, kind: Any) -> Any:
    """What cloudpickle says of a class, without what only this version of Python can use."""
    if type(reduction) is not tuple or len(reduction) != 6:
        return reduction
    make, arguments, (names, _), *_ = reduction
    annotations = _annotations(kind) if "__annotations__" in names or sys.version_info >= (3, 14) else {}
    names = {name: value for name, value in names.items() if name not in _OF_ONE_VERSION}
    if annotations:
        names["__annotations__"] = annotations
    if "__slots__" in names and make.__name__ == "_make_skeleton_class":  # else its instances would get a dictionary
        metaclass, name, bases, first, *rest = arguments
        arguments = (metaclass, name, bases, {**first, "__slots__": names.pop("__slots__")}, *rest)
    return make, arguments, taken_apart(kind, names), None, None, set_class


def _annotations(value: Any) -> dict[str, Any]:
    """Its annotations; none when they name what is not there."""
    try:
        return dict(value.__annotations__)
    except Exception:
        return {}
