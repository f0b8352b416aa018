"""Code objects that travel: bytecode for the very same Python, a place in some source for every other. Runs nothing."""

from __future__ import annotations

import marshal
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType

from belljar_kernel import source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    # In a cell: its name, its `__future__`, and the code's name and line, and which of several there.
    # In a module: its name, and the names of the functions around the code and its own.
    Place = tuple[str, int, str, int, int] | tuple[str, tuple[str, ...]]

_cells: dict[tuple[str, int], list[CodeType]] = {}
_modules: dict[str, CodeType | None] = {}


class CannotTravel(Exception):
    """This code has no form that this Python can load."""


def reduced(code: CodeType, module: str | None = None) -> tuple[Any, ...]:
    """How pickle keeps a code object; `module` is the library that it came from, if any."""
    place = _place_in_cell(code) if module is None else _place_in_module(code, module)
    return restored, (MAGIC_NUMBER, marshal.dumps(code), place, code.co_name)


def restored(magic: bytes, bytecode: bytes, place: Place | None, name: str) -> CodeType:
    """The code object again. Bytecode of another Python is never loaded: it would crash this one.

    Raises:
        CannotTravel: when it was defined neither in a cell nor in a library, or reads differently here.
    """
    if magic == MAGIC_NUMBER:
        code: CodeType = marshal.loads(bytecode)
        return code
    if place is None:
        raise CannotTravel(f"{name} was not defined in a cell, so it has no source for another version of Python")
    found = _in_module(*place) if len(place) == 2 else _in_cell(*place)
    if found is None:
        raise CannotTravel(f"the source of {name} was not found for this version of Python")
    return found


def forget() -> None:
    """Drop what was compiled to find code in it."""
    _cells.clear()
    _modules.clear()


def _place_in_cell(code: CodeType) -> Place | None:
    if not source.is_cell(code.co_filename):
        return None
    flags = code.co_flags & source.FUTURES
    alike = _alike(code.co_filename, flags, code.co_name, code.co_firstlineno)
    number = alike.index(code) if code in alike else -1
    return (code.co_filename, flags, code.co_name, code.co_firstlineno, number) if number >= 0 else None


def _in_cell(cell: str, flags: int, name: str, line: int, number: int) -> CodeType | None:
    found = _alike(cell, flags, name, line)
    return found[number] if number < len(found) else None


def _alike(cell: str, flags: int, name: str, line: int) -> list[CodeType]:
    """The code objects of a cell with this name and line, in the order of its source."""
    if (cell, flags) not in _cells:
        text = source.text_of(cell)
        try:
            parts = source.compiled(cell, text, flags) if text is not None else ()
        except SyntaxError as error:
            raise CannotTravel(f"the cell that defined it is no Python here: {error.msg}") from None
        _cells[cell, flags] = [code for part in parts for _, code in _within(part)]
    return [code for code in _cells[cell, flags] if code.co_name == name and code.co_firstlineno == line]


def _place_in_module(code: CodeType, module: str) -> Place | None:
    whole = _code_of(module)
    path = next((path for path, other in _within(whole) if other == code), None) if whole is not None else None
    return None if path is None else (module, path)


def _in_module(module: str, path: tuple[str, ...]) -> CodeType | None:
    whole = _code_of(module)
    found = [code for other, code in _within(whole) if other == path] if whole is not None else []
    return found[0] if len(found) == 1 else None


def _code_of(module: str) -> CodeType | None:
    """The code of a library's module, from its own source."""
    if module not in _modules:
        spec = find_spec(module)
        get_code = getattr(spec.loader, "get_code", None) if spec is not None else None
        _modules[module] = get_code(module) if get_code is not None else None
    return _modules[module]


def _within(code: CodeType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CodeType]]:
    for constant in code.co_consts:
        if type(constant) is CodeType:
            inner = (*path, constant.co_name)
            yield inner, constant
            yield from _within(constant, inner)
