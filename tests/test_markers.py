"""Markers are derived from what a test is given, and the derivation names nothing that is gone."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest
from tests import markers
from tests.conftest import MAKES_JAILS


class Stated:
    """A test of which only its place, its fixtures and its values are known."""

    def __init__(self, place: str, *fixtures: str, marked: str = "", **values: object) -> None:
        self.path = markers.TESTS / place
        self.fixturenames = fixtures
        self.callspec = SimpleNamespace(params=values)
        self.marked = set(marked.split())

    def iter_markers(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in self.marked]

    def add_marker(self, name: str) -> None:
        self.marked.add(name)


@pytest.mark.parametrize(
    ("item", "marks"),
    [
        (Stated("kernel/test_value.py", "guest"), set()),
        (Stated("kernel/test_value.py", "guest", "science"), {"engine", "native"}),
        (Stated("cli/test_doctor.py", auto="wasm"), set()),
        (Stated("service/test_owners.py", "kind", kind="native"), {"engine", "native"}),
        (Stated("service/test_owners.py", "kind", kind="unconfined"), set()),
        (Stated("packages/test_layers.py", "apart", installer="wasm"), {"engine", "long", "wasm"}),
        (Stated("api/test_run.py", "sandbox"), {"engine", "native"}),
        (Stated("api/test_files.py", engine="wasm"), {"engine", "wasm"}),
        (Stated("state/test_engines.py", before="native", after="wasm"), {"engine", "long", "native", "wasm"}),
        (Stated("native/test_layout.py"), set()),
        (Stated("native/test_limits.py"), {"engine", "native"}),
        (Stated("security/test_wasm_bare.py"), {"engine", "long", "wasm"}),
        (Stated("cli/test_app.py", marked="engine"), {"engine", "native"}),
    ],
)
def test_a_test_is_marked_by_what_it_needs(item: Any, marks: set[str]) -> None:
    markers.mark(item)
    assert item.marked == marks


def test_what_the_derivation_names_exists() -> None:
    assert [file for file in markers.ALONE if not (markers.TESTS / file).is_file()] == []
    assert [file for file in markers.LONG | markers.SLOW if not (markers.TESTS / file).is_file()] == []
    assert [folder for folder in markers.WALLED if not (markers.TESTS / folder).is_dir()] == []
    assert importlib.util.find_spec(MAKES_JAILS) is not None
