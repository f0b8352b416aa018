"""Puts the code that a first run needs side by side in memory, before any fork.

A call counts references in the code object that it runs, and so copies its page in a fork. Scattered among code that
nobody calls, hundreds of them cost hundreds of pages; side by side, a few dozen. Nothing else about a function changes.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType

OURS = ("belljar_jail", "belljar_kernel")


_former: list[CodeType] = []  # kept: what a fork allocates would else be scattered over the holes that they leave


def pack(act: Callable[[], object]) -> None:
    """Move the code of all functions that `act` calls, and of our own."""
    called = _called_by(act)
    moved: dict[int, CodeType] = {}  # by identity: twins in two files are equal
    for function in gc.get_objects():
        if type(function) is FunctionType:
            code = function.__code__
            if code in called or _is_ours(function):
                function.__code__ = _moved(code, moved)


def _moved(code: CodeType, moved: dict[int, CodeType]) -> CodeType:
    """Its copy, with copies of the functions, comprehensions and classes inside."""
    if id(code) not in moved:
        _former.append(code)
        constants = tuple(_moved(it, moved) if type(it) is CodeType else it for it in code.co_consts)
        moved[id(code)] = code.replace(co_consts=constants)
    return moved[id(code)]


def _called_by(act: Callable[[], object]) -> set[CodeType]:
    called = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return called


def _is_ours(function: FunctionType) -> bool:
    module = function.__module__
    return type(module) is str and module.startswith(OURS)
