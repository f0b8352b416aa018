"""Objects of a zygote are no longer counted, where Python can do without, and go on working."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import belljar_jail
from belljar_jail import immortal

from .interpreters import find_python

PROGRAM = """
import gc, json, sys
kept, fresh = {"list": [1, 2], "text": "a" * 50, "nested": {"x": (1.5, "y")}}, None
from belljar_jail import immortal
import weakref
class Lazy:
    @property
    def __class__(self): self.made = [object()]; return Lazy
lazy, gone = Lazy(), weakref.proxy(Lazy())
def function(): return ("in a", "tuple"), 12345.5, [n for n in (1, 2)]
class Secretive(type):
    def __getattribute__(cls, name): raise RuntimeError(name)
class Secret(metaclass=Secretive): pass
count = immortal.immortalise()
gc.freeze()
before = sys.getrefcount(kept["list"])
names = [kept["list"] for _ in range(1000)]
assert sys.getrefcount(kept["list"]) == before > 1 << 30, before
of_code, of_class = function.__code__.co_consts, vars(dict)["fromkeys"]
assert all(sys.getrefcount(it) > 1 << 30 for it in (of_code, *of_code, of_class))
assert function() == (("in a", "tuple"), 12345.5, [1, 2]) and dict.fromkeys("a") == {"a": None}
kept["list"].append(3); kept["text"] += "b"; del kept["nested"]; names.clear()
fresh = [kept["list"]]
assert sys.getrefcount(fresh) < 10
class After:
    def __del__(self): print("freed")
After()
gc.unfreeze(); gc.collect()
assert json.loads(json.dumps(kept)) == {"list": [1, 2, 3], "text": "a" * 50 + "b"}
print(count > 1000)
"""


@pytest.mark.parametrize("minor", ["3.12", "3.13"])
def test_what_was_there_is_counted_no_more_and_what_comes_is(minor: str):
    python = find_python(minor)
    if python is None:
        pytest.skip(f"there is no Python {minor} here")
    root = str(Path(belljar_jail.__file__).parents[1])
    ran = subprocess.run(
        [python, "-c", PROGRAM], env={"PYTHONPATH": root}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("freed\nTrue\n", "", 0)


def test_an_older_python_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "version_info", (3, 11, 0, "final", 0))
    kept = [object()]
    before = sys.getrefcount(kept)
    assert immortal.immortalise() == 0
    assert sys.getrefcount(kept) == before
