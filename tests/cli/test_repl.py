import stat

import pytest
from tests.cli.terminal import CTRL_C, CTRL_D, ENTER, PROMPT, TAB, UP

SWALLOW = "print('star' 'ted')\nwhile True:\n try:\n  for _ in iter(int, 1): pass\n except KeyboardInterrupt: print('swal' 'lowed')\n"

pytestmark = pytest.mark.engine


def open_repl(terminal):
    repl = terminal("repl")
    repl.wait_for(PROMPT, 60)
    return repl


def test_the_repl_says_what_isolates_the_code_and_what_bounds_it(terminal):
    repl = terminal("repl", "--timeout", "7", "--memory", "300")
    shown = repl.wait_for(PROMPT, 60)
    assert "7 s per run, 300 MB" in shown
    assert "engine" in shown


def test_names_live_from_one_entry_to_the_next(terminal):
    repl = open_repl(terminal)
    repl.enter("x = 20")
    assert "42" in repl.enter("x + 22")


def test_enter_continues_a_block_and_an_empty_line_runs_it(terminal):
    repl = open_repl(terminal)
    repl.type("for i in range(2):", ENTER)
    repl.wait_for("... ")
    repl.type("print('line', i + 40)", ENTER, ENTER)
    assert "line 40\r\nline 41" in repl.wait_for("line 41")


def test_tab_completes_from_the_names_that_are_alive(terminal):
    repl = open_repl(terminal)
    repl.enter("import math")
    repl.type("math.sq", TAB)
    repl.wait_for("rt")
    repl.type("(1764)", ENTER)
    repl.wait_for("42.0")


def test_history_outlives_the_sitting_and_is_private(terminal, tmp_path):
    repl = open_repl(terminal)
    assert "42000" in repl.enter("print(6 * 7000)")
    repl.type(CTRL_D)
    assert repl.wait_for_end() == 0
    again = open_repl(terminal)
    again.type(UP, ENTER)
    again.wait_for("42000")
    assert stat.S_IMODE((tmp_path / "state" / "history").stat().st_mode) == 0o600


def test_ctrl_c_interrupts_an_infinite_loop_and_the_names_stay(terminal):
    repl = open_repl(terminal)
    repl.enter("x = 41")
    repl.type("print('go' 'ing'); [0 for _ in iter(int, 1)]", ENTER)
    repl.wait_for("going\r\n")
    repl.type(CTRL_C)
    repl.wait_for("KeyboardInterrupt")
    repl.wait_for(PROMPT)
    assert "42" in repl.enter("x + 1")


def test_a_second_ctrl_c_kills_code_that_will_not_stop(terminal):
    repl = open_repl(terminal)
    repl.enter("x = 41")
    repl.type(f"\x1b[200~{SWALLOW}\x1b[201~", ENTER)
    repl.wait_for("started\r\n")
    repl.type(CTRL_C)
    repl.wait_for("swallowed\r\n")
    repl.type(CTRL_C)
    repl.wait_for("killed")
    repl.wait_for(PROMPT)
    assert "NameError" in repl.enter("x")


def test_ctrl_c_at_the_prompt_drops_the_line_only(terminal):
    repl = open_repl(terminal)
    repl.type("unwanted")
    repl.wait_for("d")
    repl.press(CTRL_C)
    assert "42" in repl.enter("6 * 7")


def test_an_error_is_shown_and_the_sitting_goes_on(terminal):
    repl = open_repl(terminal)
    assert repl.enter("1 / 0").count("ZeroDivisionError: division by zero") == 1
    assert "42" in repl.enter("6 * 7")


def test_commands_of_the_repl_show_names_and_files_and_forget(terminal):
    repl = open_repl(terminal)
    repl.enter("answer = 42; _ = open('made.txt', 'w').write('abc')")
    assert "answer" in repl.enter("%vars")
    assert "made.txt" in repl.enter("%files")
    assert "%reset" in repl.enter("%help")
    repl.enter("%reset")
    assert "NameError" in repl.enter("answer")
    assert "made.txt" in repl.enter("%files")
    assert "there is no %nothing" in repl.enter("%nothing")


def test_a_script_on_a_pipe_is_run_cell_by_cell(belljar):
    done = belljar("repl", input=b"x = 20\ndef f(n):\n    return n + x\nf(1)\n1 / 0\nprint(f(22))\n%nothing\n")
    assert (done.returncode, done.stdout) == (0, b"21\n42\n")
    assert b"ZeroDivisionError: division by zero" in done.stderr
    assert b"there is no %nothing" in done.stderr
