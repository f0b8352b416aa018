"""Every row of the checklist (rows.md) has a test that carries its id, and every test of it carries the id of a row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent


def rows() -> list[str]:
    """The ids of the rows, in order."""
    return re.findall(r"^- ([A-E]\d\d): \S", (HERE / "rows.md").read_text("utf-8"), flags=re.MULTILINE)


def carried() -> dict[str, set[str]]:
    """The tests of the checklist, each with the ids that its name begins with."""
    found = {}
    for file in HERE.glob("test_seed_*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                begins = re.match(r"test_(?:[a-e]\d\d_(?:and_)?)+", node.name)
                ids = re.findall(r"[a-e]\d\d", begins[0]) if begins else []
                found[f"{file.name}::{node.name}"] = {row.upper() for row in ids}
    return found


def test_every_row_has_a_test() -> None:
    tested = set().union(*carried().values())
    assert len(rows()) > 90
    assert [row for row in rows() if row not in tested] == []


def test_every_test_has_a_row() -> None:
    assert {name: ids for name, ids in carried().items() if not ids or not ids <= {*rows()}} == {}


def test_rows_are_in_order_and_none_is_twice() -> None:
    assert rows() == sorted(set(rows()))
