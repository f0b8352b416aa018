"""From one engine to another, which has another Python: functions and classes travel by the source of their cell."""

from __future__ import annotations

import pytest
from tests.state.test_checkpoint import SCIENCE, USED, USES_IT

from belljar import Sandbox

STRUCTURES = """
from dataclasses import dataclass, field
from typing import NamedTuple
import enum
@dataclass
class D:
    a: int
    b: list = field(default_factory=list)
    def size(self): return len(self.b)
class N(NamedTuple):
    a: int
    b: str = "b"
    def both(self): return f"{self.a}{self.b}"
class C(enum.Enum):
    RED = 1
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up
up = counter(); up()
d, n, c = D(1, [2]), N(4), C.RED
shared = [1]; alias = shared
exec("def made(): return 1")
open("f.txt", "w").write("text")
"""
USES_STRUCTURES = (
    "[repr(d), d.size(), repr(D(5)), n.both(), type(n) is N, c is C.RED, up(), alias is shared, open('f.txt').read()]"
)
USED_STRUCTURES = ["D(a=1, b=[2])", 1, "D(a=5, b=[])", "4b", True, True, 2, True, "text"]


@pytest.mark.parametrize(("before", "after"), [("native", "wasm"), ("wasm", "native"), ("wasm", "wasm")])
@pytest.mark.usefixtures("native")
def test_a_state_moves_between_engines(before: str, after: str):
    is_move = before != after  # what the packages hold is the same on one engine; that takes long on wasm
    with Sandbox(before) as sandbox:
        for code in (SCIENCE, STRUCTURES) if is_move else (STRUCTURES,):
            sandbox.run(code).raise_for_status()
        saved = sandbox.checkpoint()
    assert (saved.engine, saved.skipped, saved.files_skipped) == (before, {}, {})
    with Sandbox.restore(saved.to_bytes(), engine=after) as sandbox:
        assert sandbox.engine == after
        report = sandbox.restored
        assert report is not None
        assert report.files_skipped == {}
        assert list(report.skipped) == (["made"] if is_move else [])
        assert not is_move or sandbox.run(USES_IT).value == USED
        assert sandbox.run(USES_STRUCTURES).value == USED_STRUCTURES


def test_what_is_nested_too_deeply_is_skipped_on_wasm_and_costs_nothing_else():
    with Sandbox("wasm") as sandbox:
        sandbox.run("x = 1; deep = []\nfor _ in range(100_000): deep = [deep]").raise_for_status()
        saved = sandbox.checkpoint()
        assert saved.skipped == {"deep": "it is nested too deeply"}
        after = sandbox.run("x")
        assert (after.value, after.state) == (1, "kept")


@pytest.mark.usefixtures("native")
def test_what_the_other_engine_lacks_is_named_and_the_rest_is_there():
    with Sandbox("native") as sandbox:
        sandbox.run("import resource, jinja2\nx = 1\ndef f(): return x + 1").raise_for_status()
        saved = sandbox.checkpoint()
    with Sandbox.restore(saved, engine="wasm") as sandbox:
        report = sandbox.restored
        assert report is not None
        missing = {name for name in ("resource", "jinja2") if sandbox.run(f"import {name}").error is not None}
        assert missing == set(report.skipped)
        assert all("ModuleNotFoundError" in why for why in report.skipped.values())
        assert sandbox.run("f()").value == 2
