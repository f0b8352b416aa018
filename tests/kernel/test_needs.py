"""What code imports and nobody has, told without importing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from belljar_kernel.interrupts import Interrupts
from belljar_kernel.needs import imported_names, needs
from belljar_kernel.surroundings import Surroundings


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import a, b.c as d; from e.f import g", ["a", "b", "e"]),
        ("def f():\n    import a\nif x:\n    from b import *", ["a", "b"]),
        ("from . import a\nfrom .b import c", []),
        ("await x\nimport a", ["a"]),
        ("print('import a')", []),
        ("import a\n1 +", []),
        ("x = '\\0'", []),
        ("\0", []),
        ("(" * 5000, []),
    ],
)
def test_top_level_names_are_found_wherever_they_are_imported(code: str, names: list[str]) -> None:
    assert imported_names(code) == names


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return Surroundings(str(tmp_path))


def test_what_a_finder_knows_is_not_missing_and_nothing_is_imported(surroundings: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "of_the_workspace.py").write_text("raise SystemExit")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "of_a_folder.py").write_text("")
    code = "import of_the_workspace, of_a_folder, wave, json, nobody_has_it"
    assert needs(surroundings, Interrupts(), {"code": code})["missing"] == ["of_a_folder", "nobody_has_it"]
    assert needs(surroundings, Interrupts(), {"code": code, "cwd": "lib"})["missing"] == ["nobody_has_it"]
    assert "of_the_workspace" not in sys.modules


def test_of_the_names_that_are_given_those_in_use_come_back(surroundings: Surroundings) -> None:
    done = needs(surroundings, Interrupts(), {"code": None, "names": ["sys", "nobody_has_it", 1]})
    assert done == {"missing": [], "imported": ["sys"]}


def test_a_finder_that_fails_leaves_it_to_the_import(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def find_spec(self, *_: object) -> None:
            raise RuntimeError

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert needs(surroundings, Interrupts(), {"code": "import nobody_has_it"})["missing"] == []
