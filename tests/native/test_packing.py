"""Code that is called together lies together, and works as before."""

from __future__ import annotations

import inspect
import textwrap
from types import CodeType

from belljar_jail import packing
from belljar_kernel import value


def test_what_was_called_is_moved_and_stays_the_same():
    before = textwrap.dedent.__code__
    packing.pack(lambda: textwrap.dedent("  a\n  b"))
    assert textwrap.dedent.__code__ is not before
    assert textwrap.dedent.__code__ == before
    assert textwrap.dedent("  a\n  b") == "a\nb"
    assert inspect.getsource(textwrap.dedent).startswith("def dedent")


def test_what_was_not_called_stays_where_it_is():
    before = textwrap.indent.__code__
    packing.pack(lambda: None)
    assert textwrap.indent.__code__ is before


def test_our_own_code_is_moved_too():
    before = value.value_of.__code__
    packing.pack(lambda: None)
    assert value.value_of.__code__ is not before
    assert value.value_of((1, 2)) == [1, 2]


def test_so_are_functions_within_functions():
    def outer() -> list[int]:
        return sorted([3, 1, 2], key=lambda number: -number)

    def inner(code: CodeType) -> CodeType:
        return next(it for it in code.co_consts if type(it) is CodeType)

    before = outer.__code__
    packing.pack(outer)
    assert inner(outer.__code__) is not inner(before)
    assert inner(outer.__code__) == inner(before)
    assert outer() == [3, 2, 1]
