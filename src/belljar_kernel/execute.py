"""Runs code like a notebook cell: names stay, the last expression is the value, await works. Reports nothing."""

from __future__ import annotations

import builtins
import sys
from types import ModuleType

from belljar_kernel.awaiting import run_coroutine
from belljar_kernel.slots import is_exact, module_names, slot_of
from belljar_kernel.source import Cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_COROUTINE = 0x80  # inspect.CO_COROUTINE, without the cost of importing inspect
_eval = eval
_ABSENT = object()


class Session:
    """The `__main__` module that code runs in, and what one run leaves to the next."""

    def __init__(self) -> None:
        self._module = ModuleType("__main__")
        self.flags = 0
        self.namespace: dict[str, Any] = module_names(self._module)
        self.own_names = frozenset({*self.namespace, "__builtins__", "_args"})

    def prepare(self, args: object = _ABSENT) -> None:
        """Put back what makes the namespace a module, and set `_args` for this run only."""
        sys.modules["__main__"] = self._module
        namespace = self.namespace
        namespace["__name__"] = "__main__"
        namespace["__builtins__"] = builtins
        namespace.pop("__warningregistry__", None)  # else a cell's warning would hide the same one of a later cell
        for name in ("__doc__", "__package__", "__loader__", "__spec__"):
            namespace.setdefault(name, None)
        if args is _ABSENT:
            namespace.pop("_args", None)
        else:
            namespace["_args"] = args

    def compile(self, code: str, count: int) -> Cell:
        """The code as a cell, with the `__future__` of earlier ones.

        Raises:
            SyntaxError: when it is not Python.
        """
        return Cell(code, count, self.flags)

    def execute(self, cell: Cell) -> Any:
        """Run the cell and return the value of its last expression, or None."""
        self.flags |= cell.flags
        parts = [cell.body] if cell.last is None else [cell.body, cell.last]
        if any(part.co_flags & _COROUTINE for part in parts):
            return run_coroutine(self._execute_async(parts))
        value = None
        for part in parts:
            value = _eval(part, self.namespace)
        return value if cell.last is not None else None

    async def _execute_async(self, parts: list[CodeType]) -> Any:
        value = None
        for part in parts:
            value = _eval(part, self.namespace)
            if part.co_flags & _COROUTINE:
                value = await value
        return value if len(parts) > 1 else None


def exit_status(exit: BaseException) -> tuple[int, str]:
    """What `sys.exit` asked for: the exit code, and the text that goes to standard error."""
    code = slot_of(exit, SystemExit, "code")
    if code is None:
        return 0, ""
    if is_exact(code, int, bool):
        return (int(code) if 0 <= code <= 255 else code & 0xFF or 1), ""
    try:
        return 1, f"{code}\n"
    except Exception:
        return 1, ""
