"""What code puts into the way of imports is its own affair: the next run runs, and finds what is new."""

from __future__ import annotations

import pytest

from belljar import Policy, Sandbox

ODD = [
    "class F:\n    def invalidate_caches(self): raise ValueError('no')\nimport sys; sys.meta_path.append(F())",
    "class F:\n    def __getattr__(self, name): raise ValueError('no')\nimport sys; sys.meta_path.append(F())",
    "import sys; sys.meta_path = None",
    "import sys; del sys.path_importer_cache",
    "import importlib._bootstrap_external as own; own.PathFinder = None; del own._NamespacePath",
]


@pytest.fixture
def bare(native: None) -> Sandbox:
    return Sandbox("native", policy=Policy(packages="none"))


@pytest.mark.parametrize("code", ODD)
def test_a_finder_that_fails_does_not_end_all_runs(bare: Sandbox, code: str):
    with bare:
        bare.run(code)
        ran = bare.run("print('goes on'); 6 * 7")
    assert (ran.status, ran.stdout, ran.value) == ("ok", "goes on\n", 42)


@pytest.mark.parametrize("first", ["pass", "import importlib.metadata"])
def test_a_module_that_is_new_is_found(bare: Sandbox, first: str):
    with bare:
        assert bare.run(first).error is None
        for number in range(5):
            name = f"made_{number}"
            assert bare.run(f"import importlib.util; importlib.util.find_spec('{name}')").value is None
            bare.files.write(f"{name}.py", f"x = {number}")
            bare.files.write(f"space/part_{number}.py", f"x = {number}")
            ran = bare.run(f"import {name}, space.part_{number}; [{name}.x, space.part_{number}.x]")
            assert ran.value == [number, number], ran.error


def test_a_finder_is_asked_to_forget(bare: Sandbox):
    with bare:
        bare.run(
            "import sys\nclass F:\n    n = 0\n    def invalidate_caches(self): F.n += 1\nsys.meta_path.append(F())"
        )
        assert bare.run("F.n").value == 1
        bare.run(
            "import importlib.machinery as m\nm.PathFinder.invalidate_caches = staticmethod(lambda: setattr(F, 'n', 50))"
        )
        assert bare.run("F.n").value >= 50
