"""Objects to bytes and back, by value: cloudpickle, with functions that keep living in the namespace of the code.

The only module that knows cloudpickle, which lies beside the kernel in every sandbox and is the same in all of them.
"""

from __future__ import annotations

import functools
import io
import pickle
import re
import sys
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType

from belljar_kernel import source, travelling
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
_DOTTED = re.compile(r"\b[^\W\d]\w*(?:\.\w+)+")
_namespace: dict[str, Any] = {}


class _Placed:
    """Code, and the library that it came from; pickled, it is the code."""

    def __init__(self, code: CodeType, module: str) -> None:
        self.code = code
        self.module = module


class StatePickler(_cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles for a namespace: what is defined in it goes by value, what a library has by reference."""

    def __init__(self, file: Any, namespace: dict[str, Any]) -> None:
        super().__init__(file, PROTOCOL)
        self._namespace = namespace
        self._imported: frozenset[str] | None = None

    def reducer_override(self, value: Any) -> Any:
        """How to keep a value that pickle has no way of its own for, or not a good one."""
        kind = type(value)
        if kind is ModuleType and _cloudpickle._should_pickle_by_reference(value):
            return make_module, (value.__name__, self._submodules(value.__name__))
        if kind is CodeType:
            return travelling.reduced(value)
        if kind is _Placed:
            return travelling.reduced(value.code, value.module)
        if kind is CellType:
            return _reduced_cell(value)
        if kind is FunctionType and (home := self._home_of(value)) is not None:
            return _reduced_function(value, home)
        if kind is _Cached and value.__module__ == "__main__":
            return make_cached, (value.__wrapped__, value.cache_parameters())
        if kind is functools.cached_property:  # it may have a lock
            return make_cached_property, (value.func, value.attrname)
        if issubclass(kind, BaseException) and kind.__module__ == "__main__":
            return _reduced_exception(value)
        if issubclass(kind, _files):
            raise pickle.PicklingError("an open file cannot be saved")
        if issubclass(kind, type):
            return named_tuple(value) or _portable_class(super().reducer_override(value), value)
        return super().reducer_override(value)

    def _home_of(self, function: FunctionType) -> str | None:
        """The module whose names a function that goes by value uses; None when cloudpickle knows better."""
        names = function.__globals__
        if names is self._namespace:
            return "__main__"
        module = names.get("__name__")
        if type(module) is not str or getattr(sys.modules.get(module), "__dict__", None) is not names:
            return None
        return None if _cloudpickle._should_pickle_by_reference(function) else module

    def _submodules(self, package: str) -> tuple[str, ...]:
        """The modules beneath a package that the code has named: `import xml.etree` binds `xml` alone."""
        if self._imported is None:
            lines = (line for text in source.all_texts().values() for line in text.splitlines() if "import" in line)
            self._imported = frozenset(name for line in lines for name in _DOTTED.findall(line) if name in sys.modules)
        return tuple(sorted(name for name in self._imported if name.startswith(f"{package}.")))


def load(file: Any, namespace: dict[str, Any]) -> Any:
    """What StatePickler wrote. Runs what it was told to run: only ever inside a sandbox."""
    global _namespace
    _namespace = namespace
    try:
        return pickle.Unpickler(file).load()
    finally:
        travelling.forget()


def make_function(home: str, code: CodeType, closure: tuple[CellType, ...] | None) -> FunctionType:
    """A function that lives in a module, or in the namespace which is being restored."""
    names = _namespace if home == "__main__" else vars(import_module(home))
    if len(code.co_freevars) != len(closure or ()):
        raise travelling.CannotTravel(f"{code.co_name} closes over other names in this version of Python")
    return FunctionType(code, names, code.co_name, None, closure)


def set_function(function: Any, state: dict[str, Any]) -> None:
    """Give a function all that is not in its code."""
    function.__dict__.update(state.pop("__dict__"))
    for name, value in state.items():
        if name != "__type_params__" or sys.version_info >= (3, 12):
            setattr(function, name, value)


def make_module(name: str, submodules: tuple[str, ...]) -> ModuleType:
    """A module, and what was imported beneath it as far as it is there."""
    for submodule in submodules:
        try:
            import_module(submodule)
        except ImportError:
            pass
    return import_module(name)


def make_cached(function: FunctionType, parameters: dict[str, Any]) -> Any:
    """A function under `lru_cache`, with nothing in its cache."""
    return functools.lru_cache(**parameters)(function)


def make_cached_property(function: Any, name: str | None) -> Any:
    """A property that is asked once."""
    made = functools.cached_property(function)
    made.attrname = name
    return made


def make_exception(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception, without asking its __init__, which may want other arguments than it kept."""
    made = kind.__new__(kind, *args)
    made.args = args
    return made


def make_cell() -> CellType:
    """A variable of a closure, still empty: what is in it may need the closure itself."""
    return CellType()


def set_cell(cell: CellType, content: tuple[Any]) -> None:
    """Fill it."""
    (cell.cell_contents,) = content


def _reduced_exception(error: BaseException) -> Any:
    if type(error).__reduce__ is not BaseException.__reduce__ or type(error).__reduce_ex__ is not object.__reduce_ex__:
        return NotImplemented
    return make_exception, (type(error), error.args), dict(vars(error)) or None


def _reduced_function(function: FunctionType, home: str) -> tuple[Any, ...]:
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
    code = function.__code__
    kept = _Placed(code, home) if home != "__main__" else code
    return make_function, (home, kept, function.__closure__), state, None, None, set_function


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
    if hasattr(kind, "_is_protocol"):
        names = {name: value for name, value in names.items() if not _is_of_typing(value)}
    annotations = _annotations(kind) if "__annotations__" in names or sys.version_info >= (3, 14) else {}
    names = {name: value for name, value in names.items() if name not in _OF_ONE_VERSION}
    if annotations:
        names["__annotations__"] = annotations
    if "__slots__" in names and make.__name__ == "_make_skeleton_class":  # else its instances would get a dictionary
        metaclass, name, bases, first, *rest = arguments
        arguments = (metaclass, name, bases, {**first, "__slots__": names.pop("__slots__")}, *rest)
    return make, arguments, taken_apart(kind, names), None, None, set_class


def _is_of_typing(value: Any) -> bool:
    """Whether `typing` gave this method to a protocol or its subclass, and will again."""
    return getattr(getattr(value, "__func__", value), "__module__", None) == "typing"


def _annotations(value: Any) -> dict[str, Any]:
    """Its annotations; none when they name what is not there."""
    try:
        return dict(value.__annotations__)
    except Exception:
        return {}
