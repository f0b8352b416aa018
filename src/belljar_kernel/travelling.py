"""Code objects that travel: bytecode for the very same Python, the source of the cell for every other. Runs nothing."""

from __future__ import annotations

import marshal
from importlib.util import MAGIC_NUMBER
from types import CodeType

from belljar_kernel import source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Place = tuple[str, int, str, int, int]  # the cell, its `__future__`, the code's name and line, which of several

_compiled: dict[tuple[str, int], list[CodeType]] = {}


class CannotTravel(Exception):
    """This code has no form that this Python can load."""


def reduced(code: CodeType) -> tuple[Any, ...]:
    """How pickle keeps a code object."""
    return restored, (MAGIC_NUMBER, marshal.dumps(code), _place_of(code), code.co_name)


def restored(magic: bytes, bytecode: bytes, place: Place | None, name: str) -> CodeType:
    """The code object again. Bytecode of another Python is never loaded: it would crash this one.

    Raises:
        CannotTravel: when it was not defined in a cell, or that cell reads differently here.
    """
    if magic == MAGIC_NUMBER:
        code: CodeType = marshal.loads(bytecode)
        return code
    if place is None:
        raise CannotTravel(f"{name} was not defined in a cell, so it has no source for another version of Python")
    cell, flags, name, line, number = place
    found = [code for code in _codes_of(cell, flags) if code.co_name == name and code.co_firstlineno == line]
    if number >= len(found):
        raise CannotTravel(f"the source of {name} was not found for this version of Python")
    return found[number]


def forget() -> None:
    """Drop what was compiled to find code in it."""
    _compiled.clear()


def _place_of(code: CodeType) -> Place | None:
    if not source.is_cell(code.co_filename):
        return None
    flags = code.co_flags & source.FUTURES
    alike = [
        other
        for other in _codes_of(code.co_filename, flags)
        if other.co_name == code.co_name and other.co_firstlineno == code.co_firstlineno
    ]
    number = alike.index(code) if code in alike else -1
    return (code.co_filename, flags, code.co_name, code.co_firstlineno, number) if number >= 0 else None


def _codes_of(cell: str, flags: int) -> list[CodeType]:
    """Every code object of a cell, in the order of its source."""
    found = _compiled.get((cell, flags))
    if found is None:
        text = source.text_of(cell)
        try:
            parts = source.compiled(cell, text, flags) if text is not None else ()
        except SyntaxError as error:
            raise CannotTravel(f"the cell that defined it is no Python here: {error.msg}") from None
        found = _compiled[cell, flags] = [code for part in parts for code in _within(part)]
    return found


def _within(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield constant
            yield from _within(constant)
