"""Every checklist row that this part of Belljar answers for has a test that carries its id."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REQUIRED = {
    "A": [*range(1, 12), 13, 14, 32, 34, 35, *range(37, 43), 44, *range(47, 56)],
    "B": [2, *range(4, 13), 14, 15, 16, 18, *range(21, 25)],
    "C": [*range(2, 8), 9, *range(13, 17), 19, *range(21, 31), 34, 36, 39, 40],
    "D": [*range(5, 10), 11, 14, 15, 16, 19, 22, 23, 24],
    "E": [2, 3, 4, 10, *range(15, 19), *range(20, 26), 29, 30],
}


def test_every_required_row_has_a_test():
    names = [
        node.name
        for file in Path(__file__).parent.glob("test_seed_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    rows = [match[0] for name in names if (match := re.match(r"test_([a-e]\d\d_(and_)?)+", name))]
    tested = {row.upper() for text in rows for row in re.findall(r"[a-e]\d\d", text)}
    required = {f"{seed}{number:02}" for seed, numbers in REQUIRED.items() for number in numbers}
    assert sorted(required - tested) == []
