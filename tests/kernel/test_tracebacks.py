from __future__ import annotations

import re
import subprocess
import sys

import pytest


def test_a_traceback_is_cpythons_own_with_user_frames_only(guest):
    (guest.workspace / "tool.py").write_text("def broken(x):\n    return 1 / x\n")
    answered = guest.run(
        "import tool, functools\ndef f():\n    return functools.reduce(lambda a, b: tool.broken(a), [0, 1])\nf()"
    )
    lines = [line for line in answered.error["traceback"].splitlines() if set(line.strip()) - set("^~")]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "main.py", line 4, in <module>',
        "    f()",
        '  File "main.py", line 3, in f',
        "    return functools.reduce(lambda a, b: tool.broken(a), [0, 1])",
        '  File "main.py", line 3, in <lambda>',
        "    return functools.reduce(lambda a, b: tool.broken(a), [0, 1])",
        f'  File "{guest.workspace}/tool.py", line 2, in broken',
        "    return 1 / x",
        "ZeroDivisionError: division by zero",
    ]
    assert answered.stderr == answered.error["traceback"]
    assert answered.error["line"] == 3


def test_frames_of_the_standard_library_are_left_out(guest):
    answered = guest.run("import json\njson.loads('{')")
    assert [line for line in answered.error["traceback"].splitlines() if "File" in line] == [
        '  File "main.py", line 2, in <module>'
    ]
    assert answered.error["name"] == "JSONDecodeError"


def comparable(text):
    """Without what depends on how deep the caller was, or which of CPython's two printers drew the carets."""
    text = text.replace("__main__.", "")  # only CPython 3.10 writes it, and only for scripts
    text = re.sub(r"repeated \d+ more", "repeated N more", text)
    return [line for line in text.splitlines() if set(line.strip()) - set("^~")]


@pytest.mark.parametrize(
    "code",
    [
        "1/0",
        "def f(n):\n    return f(n - 1) if n else [][0]\nf(3)",
        "try:\n    1/0\nexcept ZeroDivisionError as error:\n    raise ValueError('second') from error",
        "try:\n    1/0\nexcept ZeroDivisionError:\n    {}['x']",
        "raise ValueError('several\\nlines')",
        "class MyError(Exception): pass\nraise MyError",
        "x = = 1",
        "if True:\nprint(1)",
        "if True:\n\tx = 1\n        y = 2",
        "print('unclosed",
        "(" * 300,
        "from math import nosuch",
        "def f():\n    f()\nf()",
        "e = ValueError('noted')\nraise e",
        "assert False, 'no'",
        "undefined_thing",
        pytest.param("''.uper()", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="drawn in C only")),
    ],
)
def test_tracebacks_equal_those_of_a_script(guest, code):
    (guest.workspace / "main.py").write_text(code)
    script = subprocess.run(
        [sys.executable, "main.py"], cwd=guest.workspace, capture_output=True, text=True, timeout=60
    )
    (guest.workspace / "main.py").unlink()
    expected = script.stderr.replace(str(guest.workspace) + "/", "")
    got = guest.run(code).error["traceback"]
    assert comparable(got) == comparable(expected)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are of 3.11")
def test_exception_groups_keep_their_tree(guest):
    code = "def f():\n    raise ExceptionGroup('many', [ValueError(1), ExceptionGroup('inner', [KeyError('k')])])\nf()"
    answered = guest.run(code)
    assert "  | ExceptionGroup: many (2 sub-exceptions)" in answered.error["traceback"]
    assert "    +-+---------------- 1 ----------------" in answered.error["traceback"]
    assert "KeyError: 'k'" in answered.error["traceback"]
    assert answered.error["value"] == "many (2 sub-exceptions)"


def test_later_cells_and_functions_of_earlier_ones_show_as_main(guest):
    guest.run("# a comment\ndef broken():\n    raise ValueError('of the first cell')")
    answered = guest.run("x = 1\nbroken()")
    lines = answered.error["traceback"].splitlines()
    assert [line for line in lines if "File" in line or "raise" in line] == [
        '  File "main.py", line 2, in <module>',
        '  File "main.py", line 3, in broken',
        "    raise ValueError('of the first cell')",
    ]
    assert answered.error["line"] == 2


def test_an_error_wholly_in_an_earlier_cell_has_the_line_of_this_one(guest):
    guest.run("def f(): 1/0")
    assert guest.run("\n\nf()").error["line"] == 3


def test_syntax_errors_of_later_cells_name_main(guest):
    guest.run("1")
    error = guest.run("x = 1\ny = )").error
    assert error["line"] == 2
    assert error["code"] == "PYTHON_SYNTAX_ERROR"
    assert error["value"] == "unmatched ')' (main.py, line 2)"
    assert error["traceback"].startswith('  File "main.py", line 2\n    y = )\n')


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = = 1", "PYTHON_SYNTAX_ERROR"),
        ("if 1:\nx", "PYTHON_SYNTAX_ERROR"),
        ("x = 'a\0b'", "PYTHON_SYNTAX_ERROR"),
        ("x = '\ud800'", "PYTHON_SYNTAX_ERROR"),
        ("-" * 200_000 + "1", "PYTHON_SYNTAX_ERROR"),
        ("return 1", "PYTHON_SYNTAX_ERROR"),
        ("compile('x = = 1', 'f', 'exec')", "RUNTIME_ERROR"),
        ("import nonexistent_module_xyz", "MODULE_NOT_FOUND"),
        ("import os.nonexistent", "MODULE_NOT_FOUND"),
        ("from math import nosuch", "IMPORT_ERROR"),
        ("raise MemoryError", "MEMORY_ERROR"),
        ("raise OSError(28, 'No space left on device')", "DISK_LIMIT"),
        ("raise OSError(122, 'Disk quota exceeded')", "DISK_LIMIT"),
        ("raise OSError(2, 'no')", "RUNTIME_ERROR"),
        ("def fork(): raise BlockingIOError(11, 'unavailable')\nfork()", "PROCESS_LIMIT"),
        ("raise BlockingIOError(11, 'a socket')", "RUNTIME_ERROR"),
        ('raise RuntimeError("can\'t start new thread")', "PROCESS_LIMIT"),
        ("raise KeyboardInterrupt", "RUNTIME_ERROR"),
        ("1/0", "RUNTIME_ERROR"),
        ("raise BaseException('bare')", "RUNTIME_ERROR"),
        ("raise GeneratorExit", "RUNTIME_ERROR"),
        ("raise StopIteration", "RUNTIME_ERROR"),
    ],
)
def test_codes(guest, code, expected):
    assert guest.run(code).error["code"] == expected


def test_a_syntax_error_in_a_module_of_the_workspace_is_a_runtime_error_with_its_file(guest):
    (guest.workspace / "wrong.py").write_text("x = = 1")
    error = guest.run("import wrong").error
    assert (error["code"], error["line"]) == ("RUNTIME_ERROR", 1)
    assert f'File "{guest.workspace}/wrong.py", line 1' in error["traceback"]


def test_code_run_by_exec_is_shown(guest):
    assert '  File "<string>", line 1, in <module>\n' in guest.run("exec('1/0')").error["traceback"]


def test_deep_recursion_is_bounded(guest):
    error = guest.run("import sys\nsys.setrecursionlimit(9000)\ndef f(): g()\ndef g(): f()\nf()").error
    assert error["name"] == "RecursionError"
    assert len(error["traceback"]) < 300_000


def test_an_enormous_message_is_cut_with_a_mark(guest):
    error = guest.run("raise ValueError('x' * 100_000_000)").error
    assert len(error["value"]) < 70_000
    assert "characters left out" in error["value"]
    assert len(error["traceback"]) < 270_000


def test_an_enormous_source_line_is_cut(guest):
    error = guest.run("x = '" + "y" * 1_000_000 + "'; 1/0").error
    assert len(error["traceback"]) < 10_000
    error = guest.run("x = '" + "y" * 1_000_000 + "' 1").error
    assert len(error["traceback"]) < 10_000


def test_an_endless_chain_is_cut(guest):
    code = """
error = ValueError(0)
for n in range(1, 10_000):
    following = ValueError(n)
    following.__cause__ = error
    error = following
raise error
"""
    error = guest.run(code).error
    assert error["traceback"].endswith("ValueError: 9999\n")
    assert "ValueError: 3\n" not in error["traceback"]


def test_a_chain_that_is_a_circle_ends(guest):
    code = "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a"
    assert guest.run(code).error["traceback"].endswith("ValueError: a\n")


@pytest.mark.parametrize(
    "body",
    [
        "def __str__(self): raise RuntimeError('no text')",
        "def __str__(self): return 5",
        "def __str__(self): raise KeyboardInterrupt",
        "def __str__(self): raise SystemExit(9)",
        "def __repr__(self): raise RuntimeError",
        "__class__ = property(lambda self: 1/0)",
        "__traceback__ = property(lambda self: 1/0)",
        "__cause__ = property(lambda self: 1/0)",
        "__context__ = property(lambda self: 1/0)",
        "__notes__ = property(lambda self: 1/0)",
        "__suppress_context__ = property(lambda self: 1/0)",
        "def __getattribute__(self, name): raise RuntimeError(name)",
        "__module__ = 5",
        "__qualname__ = 'x' * 10",
        "def __eq__(self, other): raise RuntimeError",
        "def __hash__(self): raise RuntimeError",
        "def __bool__(self): raise RuntimeError",
    ],
)
@pytest.mark.parametrize("base", ["Exception", "SyntaxError", "OSError", "BaseException", "NameError", "SystemExit"])
def test_a_hostile_exception_is_still_an_error(guest, body, base):
    answered = guest.run(f"class Hostile({base}):\n    {body}\nraise Hostile('boo')")
    assert answered.error["name"] == "Hostile"
    assert answered.done["exit_code"] == 1
    assert guest.run("1").text == "1"


def test_a_metaclass_cannot_change_the_name(guest):
    code = "class Meta(type):\n    __name__ = property(lambda cls: 1/0)\n    def __repr__(cls): 1/0\nclass E(Exception, metaclass=Meta): pass\nraise E('x')"
    assert guest.run(code).error["name"] == "E"


def test_warnings_name_main_in_every_cell(process):
    for _ in range(2):
        answered = process.run("import warnings\nwarnings.warn('careful')")
        assert answered.done["status"] == "ok"
        assert answered.stderr == "main.py:2: UserWarning: careful\n  warnings.warn('careful')\n"


def test_a_cleared_linecache_costs_no_source_lines(guest):
    assert "    1/0\n" in guest.run("import linecache\nlinecache.clearcache()\n1/0").error["traceback"]


def test_a_file_named_main_does_not_confuse_tracebacks(guest):
    (guest.workspace / "main.py").write_text("something else\n" * 5)
    assert "    1/0\n" in guest.run("import linecache\nlinecache.checkcache()\n1/0").error["traceback"]


def test_memory_of_failed_code_is_freed(guest):
    guest.run(
        "import weakref\nclass Big: pass\ndef f():\n    global ref\n    big = Big()\n    ref = weakref.ref(big)\n    1/0\nf()"
    )
    assert guest.run("import gc\ngc.collect()\nref() is None").text == "True"
