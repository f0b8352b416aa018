from __future__ import annotations

import pytest


def test_the_last_expression_is_the_value(guest):
    assert guest.run("1 + 1").text == "2"
    answered = guest.run("x = 20\nx + 1")
    assert answered.results == [{"type": "result", "id": 2, "data": {"text/plain": "21"}, "metadata": {}, "main": True}]
    assert answered.done == {
        "type": "done",
        "id": 2,
        "status": "ok",
        "error": None,
        "value": 21,
        "exit_code": 0,
        "files": [],
        "truncated": False,
        "interrupted": False,
    }


@pytest.mark.parametrize("code", ["", "x = 1", "None", "# only a comment", "pass", "print"[:0], "def f(): return 1"])
def test_code_without_a_value_has_no_result(guest, code):
    answered = guest.run(code)
    assert answered.results == []
    assert answered.done["status"] == "ok"
    assert answered.done["value"] is None


@pytest.mark.parametrize("code", ["1;", "(1);", "1 ;  # comment", "x = 2; x;", "'é';\n", "1;\n\n"])
def test_a_trailing_semicolon_silences_the_value(guest, code):
    answered = guest.run(code)
    assert answered.results == []
    assert answered.done["value"] is None


@pytest.mark.parametrize("code", ["x = 1; x", "';'", "1  # ;", "(\n1\n)"])
def test_other_semicolons_do_not(guest, code):
    assert guest.run(code).text is not None


def test_names_imports_and_functions_stay(guest):
    guest.run("import math as m\nx = 41\ndef f(): return x + 1")
    assert guest.run("m.floor(f() + 0.5)").text == "42"


def test_an_error_keeps_what_was_before_it(guest):
    assert guest.run("x = 1\n1/0\nx = 2").done["status"] == "error"
    assert guest.run("x").text == "1"


def test_top_level_await_works_and_shares_one_loop(guest):
    assert guest.run("import asyncio\nawait asyncio.sleep(0, 7)").text == "7"
    guest.run("loop = asyncio.get_running_loop(); await asyncio.sleep(0)")
    assert guest.run("await asyncio.sleep(0)\nloop is asyncio.get_running_loop()").text == "True"


def test_a_cell_that_awaits_may_create_tasks_before_it_does(guest):
    code = "import asyncio\nasync def f(): return 5\ntask = asyncio.create_task(f())\nawait task"
    assert guest.run(code).text == "5"


def test_asyncio_run_works_as_in_a_script(guest):
    assert guest.run("import asyncio\nasync def f(): return 5\nasyncio.run(f())").text == "5"
    assert guest.run("await f()").text == "5"


def test_a_closed_loop_is_replaced(guest):
    guest.run("import asyncio\nawait asyncio.sleep(0)\nloop = asyncio.get_running_loop()")
    guest.run("loop.close()")
    assert guest.run("await asyncio.sleep(0, 1)").text == "1"


def test_the_namespace_is_a_real_main_module(guest):
    code = """
import pickle, sys
class Point:
    def __init__(self, x): self.x = x
(__name__, pickle.loads(pickle.dumps(Point(3))).x, sys.modules['__main__'].Point is Point, Point.__module__)
"""
    assert guest.run(code).done["value"] == ["__main__", 3, True, "__main__"]


def test_args_are_there_only_when_given(guest):
    assert guest.run("_args['n'] + 1", args={"n": 1}).text == "2"
    assert guest.run("_args").error["name"] == "NameError"
    assert guest.run("_args is None", args=None).text == "True"


def test_exit_codes_are_the_codes_own(guest):
    answered = guest.run("print('before')\nimport sys\nsys.exit(3)")
    assert (answered.done["exit_code"], answered.stdout, answered.stderr) == (3, "before\n", "")
    assert {**answered.error, "traceback": ""} == {
        "name": "SystemExit",
        "value": "3",
        "traceback": "",
        "line": 3,
        "code": "RUNTIME_ERROR",
    }


@pytest.mark.parametrize("code", ["sys.exit()", "sys.exit(0)", "sys.exit(None)", "raise SystemExit", "exit()"])
def test_leaving_with_nothing_or_zero_is_success(guest, code):
    answered = guest.run(f"import sys\n{code}")
    assert (answered.done["status"], answered.done["exit_code"], answered.done["error"]) == ("ok", 0, None)


def test_exit_with_a_text_prints_it_and_is_one(guest):
    answered = guest.run("import sys\nsys.exit('gone wrong')")
    assert (answered.done["exit_code"], answered.stderr) == (1, "gone wrong\n")
    assert answered.error["value"] == "gone wrong"


@pytest.mark.parametrize(("asked", "got"), [(1, 1), (255, 255), (256, 1), (-1, 255), (True, 1)])
def test_exit_codes_are_what_a_process_can_have(guest, asked, got):
    assert guest.run(f"import sys\nsys.exit({asked})").done["exit_code"] == got


def test_state_is_kept_after_an_exit(guest):
    guest.run("x = 5\nimport sys\nsys.exit(2)")
    assert guest.run("x").text == "5"


def test_unittest_and_argparse_see_a_script_without_arguments(guest):
    code = "import sys, argparse\np = argparse.ArgumentParser()\np.add_argument('--n', default=4)\n(p.parse_args().n, sys.argv)"
    assert guest.run(code).done["value"] == [4, ["main.py"]]


def test_future_imports_reach_later_cells(guest):
    guest.run("from __future__ import annotations")
    assert guest.run("def f(x: undefined_name): pass\nf.__annotations__").text == "{'x': 'undefined_name'}"


def test_mixed_newlines_and_a_byte_order_mark_are_python(guest):
    answered = guest.run("\ufeffx = 1\r\ny = 2\rz = 3\nx + y + z")
    assert answered.text == "6"
    assert guest.run("a = 1\r\rb = 2\r\n1/0").error["line"] == 4


def test_triple_quotes_backslashes_and_unicode_survive(guest):
    code = "s = '''a\"\"\"\\n\\\\ ✓ ²'''\nprint(s)\nlen(s)"
    answered = guest.run(code)
    assert answered.stdout == 'a"""\n\\ ✓ ²\n'
    assert answered.text == "10"


def test_source_of_every_cell_is_known_to_inspect(guest):
    guest.run("def first():\n    return 'first'")
    guest.run("def second():\n    return 'second'")
    assert guest.run("import inspect\ninspect.getsource(first) + inspect.getsource(second)").done["value"] == (
        "def first():\n    return 'first'\ndef second():\n    return 'second'\n"
    )


def test_recursive_display_and_nested_functions_see_module_globals(guest):
    assert guest.run("def outer():\n    def inner(): return total\n    return inner()\ntotal = 9\nouter()").text == "9"
    assert guest.run("[total for _ in range(2)]").text == "[9, 9]"
