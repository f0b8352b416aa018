"""Files that are hard to carry from one process to the next: how deep they may lie, and how long it may take."""

from __future__ import annotations

import pytest

from belljar import PathRefused, Sandbox

DIG = """
import errno, os
def dig(name):
    levels = 0
    try:
        while levels < 3000:
            os.mkdir(name)
            os.chdir(name)
            levels += 1
    except OSError as error:
        return levels, errno.errorcode[error.errno]
    finally:
        os.chdir("/workspace")
def move():
    os.makedirs("a/" * 70)
    os.makedirs("b/" * 70)
    try:
        os.rename("b", "a/" * 70 + "b")
    except OSError as error:
        return errno.errorcode[error.errno]
[*dig("d"), *dig("x" * 250), move()]
"""


def test_a_tree_has_an_end_and_outlives_its_python(bare: Sandbox):
    levels, why, long, also, moved = bare.run(DIG).value
    assert (levels, why, also, moved) == (127, *["ENAMETOOLONG"] * 3)
    assert long == 15
    names = {entry.path for entry in bare.files.list()}
    with pytest.raises(PathRefused, match="too deep"):
        bare.files.write("e/" * 130 + "file", "text")
    bare.files.delete("e")
    assert bare.run("import os; os.abort()").state == "reset"
    assert {entry.path for entry in bare.files.list()} == names
    ran = bare.run("import os; sum(1 for _ in os.walk('d'))")
    assert (ran.value, "lost" in (ran.state_reason or "")) == (127, False)
    for name in ("a", "b", "d", "x" * 250):
        bare.files.delete(name)
    assert bare.files.list() == []


def test_files_that_take_too_long_to_give_back_are_lost_and_it_is_told(bare: Sandbox, monkeypatch: pytest.MonkeyPatch):
    bare.files.write("kept", "text")
    with monkeypatch.context() as patched:
        patched.setattr("belljar.engines.wasm.process.HAND_BACK_TIMEOUT_S", 0)
        assert bare.run("import os; os.abort()").state == "reset"
        ran = bare.run("1 + 1")
    assert ran.value == 2
    assert "the files are lost" in ran.state_reason
    assert bare.files.list() == []
    bare.files.write("next", "text")
    bare.reset()
    assert bare.files.read("next") == b"text"
