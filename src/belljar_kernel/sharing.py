"""Which names can be saved, how large they are, and which share objects and so must stay together. Keeps nothing."""

from __future__ import annotations

import gc
import pickle
import types

from belljar_kernel import tracebacks
from belljar_kernel.depth import IS_FRAGILE, is_too_deep
from belljar_kernel.pickling import StatePickler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

TRACKED = 2_000_000  # objects; beyond that, what is shared is saved twice
# Of these it does not matter whether two names have the same one or an equal one; nor of what is not tracked by gc.
_PLAIN = frozenset({
    int, float, complex, bool, str, bytes, tuple, frozenset, type(None), type(...), types.FunctionType,
    types.BuiltinFunctionType, types.ModuleType, types.CodeType, pickle.PickleBuffer,
})  # fmt: skip
_MUTABLE = ("dict", "bytearray", "ndarray")  # not tracked, or not always
_is_tracked = gc.is_tracked
_REASONS: dict[type, str] = {
    types.GeneratorType: "a generator cannot be saved: make it again, or save a list of what it gives",
    types.CoroutineType: "a coroutine cannot be saved",
    types.AsyncGeneratorType: "a generator cannot be saved: make it again, or save a list of what it gives",
    types.FrameType: "a frame cannot be saved",
    types.TracebackType: "a traceback cannot be saved",
}


class Survey:
    """What was found out about the names of a namespace."""

    def __init__(self, namespace: dict[str, Any], names: Iterable[str], is_stopped: Callable[[], bool]) -> None:
        self.sizes: dict[str, int] = {}
        self.skipped: dict[str, str] = {}
        self._namespace = namespace
        self._is_stopped = is_stopped
        self._owners: dict[int, tuple[str, Any]] = {}  # holds the objects, so that no other gets the same id
        self._together: dict[str, str] = {}
        for name in names:
            self._look_at(name)
        self._owners.clear()

    def groups(self, names: Iterable[str]) -> list[list[str]]:
        """The names in groups that share nothing with each other."""
        found: dict[str, list[str]] = {}
        for name in names:
            found.setdefault(self._first_of(name), []).append(name)
        return list(found.values())

    def meet(self, name: str, value: Any) -> None:
        """An object was seen beneath a name."""
        known = self._owners.get(id(value))
        if known is None:
            if len(self._owners) < TRACKED:
                self._owners[id(value)] = (name, value)
        elif known[0] != name:
            self._together[self._first_of(name)] = self._first_of(known[0])

    def _look_at(self, name: str) -> None:
        self._together[name] = name
        value, sink = self._namespace[name], Scale()
        if IS_FRAGILE and is_too_deep(value):
            self.skipped[name] = "it is nested too deeply"
            return
        try:
            _Probe(sink, self._namespace, self, name).dump(value)
        except BaseException as error:  # the code's own methods are asked, and may raise anything
            if self._is_stopped():
                raise
            self.skipped[name] = reason(value, error)
        else:
            self.sizes[name] = sink.size

    def _first_of(self, name: str) -> str:
        while self._together[name] != name:
            name = self._together[name]
        return name


class Scale:
    """A file that weighs what is written to it."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        """Forget it."""
        size = memoryview(data).nbytes
        self.size += size
        return size


class _Probe(StatePickler):
    """A pickler that shows every object to the survey."""

    def __init__(self, file: Any, namespace: dict[str, Any], survey: Survey, name: str) -> None:
        super().__init__(file, namespace)
        self._survey = survey
        self._name = name

    def persistent_id(self, value: Any) -> None:
        """Called for each of them."""
        kind = type(value)
        if kind is types.CellType and _has_class(value):
            return  # the cell by which methods know their class; classes are the same for all names anyway
        if kind not in _PLAIN and (_is_tracked(value) or kind.__name__ in _MUTABLE) and not issubclass(kind, type):
            self._survey.meet(self._name, value)


def _has_class(cell: types.CellType) -> bool:
    try:
        return issubclass(type(cell.cell_contents), type)
    except ValueError:
        return False


def reason(value: Any, error: BaseException) -> str:
    """Why a name cannot be saved or restored, in a sentence."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for it; give the sandbox more (memory_mb)"
    known = _REASONS.get(type(value))
    if known is not None:
        return known
    text = tracebacks.cap(tracebacks.text_of(error), 300)
    own = isinstance(error, pickle.PicklingError) or type(error).__module__.startswith("belljar_kernel")
    return text if own and text else f"{tracebacks.name_of(error)}: {text}"
