"""Recursion without end: an error like any other as long as Python's own limit sees it, else an end that is told."""

from __future__ import annotations

import pytest

from belljar import Sandbox

RECURSIONS = {
    "of a function": "def f(): return f()\nf()",
    "of a copy": "import copy\nx = []\nfor _ in range(5000): x = [x]\ncopy.deepcopy(x)",
    "of a pattern": "import re\nre.compile('(' * 3000 + ')' * 3000)",
    "through repr": "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
    "through getattr": "class A:\n    def __getattr__(self, name): return getattr(self, name)\nA().x",
    "through calls": "class A:\n    def __call__(self): return self()\nA()()",
}


@pytest.mark.parametrize("code", RECURSIONS.values(), ids=RECURSIONS)
def test_endless_recursion_is_an_error_and_the_next_run_works(bare: Sandbox, code: str):
    bare.run("1")  # tells about an end that another case may have caused
    ran = bare.run(code)
    assert (ran.error.name, ran.error.code, ran.state) == ("RecursionError", "RUNTIME_ERROR", "kept")
    assert bare.run("1 + 1").value == 2


def test_deep_calls_of_python_need_no_deep_stack(bare: Sandbox):
    code = "import sys\nsys.setrecursionlimit(60_000)\ndef f(n): return n and 1 + f(n - 1)\nf(50_000)"
    try:
        assert bare.run(code).value == 50_000
    finally:
        bare.run("sys.setrecursionlimit(1000)")


def test_recursion_in_compiled_code_alone_ends_python_and_is_told(bare: Sandbox):
    ran = bare.run("x = []\nfor _ in range(100_000): x = [x]\nrepr(x)")
    assert (ran.status, ran.error.code) == ("crashed", "CRASHED")
    again = bare.run("1 + 1")
    assert (again.value, again.state) == (2, "reset")
    assert "fresh Python" in again.state_reason
