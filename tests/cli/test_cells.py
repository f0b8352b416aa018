import pytest

from belljar.surfaces.cli import cells


@pytest.mark.parametrize(
    "text",
    [
        "1 + 1",
        "if a: b",
        "await f()",
        "for i in x:\n    i\n",
        "async with a:\n    b\n    ",
        "print(1\n)",
        "def f(:",
        "x = 1\ny = 2",
        "\0",
    ],
)
def test_enter_runs(text):
    assert cells.is_ready(text)


@pytest.mark.parametrize(
    "text",
    [
        "for i in x:",
        "for i in x:\n    i",
        "x = (1,",
        "'''a",
        "@decorator",
        "try:\n    x\n",
        "if a:\n    b\nelse:",
        "class A:\n    x = 1\n\n    y = 2",
    ],
)
def test_enter_continues(text):
    assert not cells.is_ready(text)


@pytest.mark.parametrize(
    ("text", "indent"),
    [
        ("for i in x:", "    "),
        ("if a:\n    for i in x:", "        "),
        ("if a:\n    b", "    "),
        ("def f():\n    return 1", ""),
        ("x = (", ""),
    ],
)
def test_the_next_line_is_indented_as_the_code_wants_it(text, indent):
    assert cells.next_indent(text) == indent


def test_a_script_without_empty_lines_is_cut_where_statements_start():
    script = [
        "def f():\n  return 1\n",
        "f()\n",
        "if x: y\nelse: z\n",
        "x = 1\n",
        "try:\n  a\n\n  b\nexcept E:\n  c\nfinally:\n  d\n",
        "print('''a\n\nb''')\n",
        "@d\ndef g(): pass\n",
        "g(\n",
    ]
    assert list(cells.split("".join(script).splitlines(keepends=True))) == script


def test_a_statement_is_a_cell_before_the_next_line_comes():
    def lines():
        yield "x = 1\n"
        raise AssertionError("asked for more before it gave the cell")

    assert next(cells.split(lines())) == "x = 1\n"
