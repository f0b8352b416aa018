import json
import signal
import subprocess

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.terminal import CTRL_C
from tests.loopback import Web

pytestmark = pytest.mark.engine


def test_standard_output_and_error_arrive_byte_for_byte(belljar):
    code = r"import sys; print('é\r\n\0', end=''); print('no newline', end='', file=sys.stderr)"
    done = belljar("run", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "é\r\n\0".encode(), b"no newline")


def test_the_last_expression_is_printed_after_the_output(belljar):
    assert belljar("run", "-c", "print('a', end='')\n6 * 7").stdout == b"a\n42\n"
    assert belljar("run", "-c", "x = 1").stdout == b""


def test_a_table_is_printed_as_its_text(belljar):
    done = belljar("run", "-c", "import pandas as pd; pd.DataFrame({'x': [1, 2]})")
    assert done.stdout == b"   x\n0  1\n1  2\n"


def test_code_comes_from_a_file_or_from_standard_input(belljar, home):
    (home / "main.py").write_bytes(b"print('from a file')\r\n")
    assert belljar("run", "main.py").stdout == b"from a file\n"
    assert belljar("run", "-", input=b"print('from stdin')").stdout == b"from stdin\n"
    assert belljar("run", input=b"print('from a pipe')").stdout == b"from a pipe\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit(0)", 0),
        ("raise ValueError('no')", 1),
        ("def f(:", 1),
        ("import os; os.kill(os.getpid(), 11)", 139),
        ("import os; os.abort()", 134),
    ],
)
def test_the_exit_code_is_the_code_s_own(belljar, code, expected):
    assert belljar("run", "-c", code).returncode == expected


def test_a_traceback_is_printed_once_and_shows_the_code_alone(belljar):
    done = belljar("run", "-c", "def f():\n    raise ValueError('no')\nf()")
    assert done.stderr.count(b"ValueError: no") == 1
    assert b'File "main.py", line 3' in done.stderr
    assert b"belljar" not in done.stderr


def test_a_timeout_exits_with_124_and_one_line_that_helps(belljar):
    done = belljar("run", "--timeout", "1", "-c", "print('before', flush=True)\nwhile True: pass")
    assert (done.returncode, done.stdout) == (124, b"before\n")
    assert done.stderr.splitlines()[-1] == b"belljar: stopped at the time limit of 1 s; --timeout S allows up to 300"


def test_out_of_memory_exits_with_137_and_one_line_that_helps(belljar):
    done = belljar("run", "--memory", "128", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))")
    assert done.returncode == 137
    assert b"its 128 MB; --memory MB allows more" in done.stderr.splitlines()[-1]


def test_output_appears_while_the_code_still_runs(environment, home):
    code = "import time; print('first', flush=True); time.sleep(60)"
    with subprocess.Popen(
        [*COMMAND, "run", "--timeout", "90", "-c", code], stdout=subprocess.PIPE, env=environment, cwd=home
    ) as process:
        assert process.stdout.readline() == b"first\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_a_reader_that_leaves_ends_the_command_quietly(environment, home):
    code = "while True: print('y' * 1000)"
    with subprocess.Popen(
        [*COMMAND, "run", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=home
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_json_is_one_object_and_nothing_else(belljar):
    done = belljar("run", "--json", "-c", r"print('out'); print('\ud800'.encode('utf-8', 'replace')); {'a': [1, None]}")
    execution = json.loads(done.stdout)
    assert (execution["status"], execution["value"], execution["exit_code"]) == ("ok", {"a": [1, None]}, 0)
    assert execution["stdout"] == "out\nb'?'\n"
    assert execution["text"] == "{'a': [1, None]}"
    assert (done.stderr, done.stdout.count(b"\n")) == (b"", 1)


def test_json_keeps_the_exit_code_and_holds_the_error(belljar):
    done = belljar("run", "--json", "-c", "print('x')\n1 / 0")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert (error["name"], error["line"], error["code"]) == ("ZeroDivisionError", 2, "RUNTIME_ERROR")


def test_input_is_what_was_given_and_otherwise_at_its_end(belljar, home):
    (home / "in.txt").write_text("Ada\nGrace\n")
    assert belljar("run", "--stdin", "in.txt", "-c", "print(input(), input())").stdout == b"Ada Grace\n"
    assert belljar("run", "--stdin", "-", "-c", "print(input())", input=b"Joan\n").stdout == b"Joan\n"
    assert b"EOFError" in belljar("run", "-c", "input()", input=b"not for the code\n").stderr


def test_arguments_are_there_as_data(belljar):
    assert belljar("run", "--args", '{"n": [1, 2]}', "-c", "sum(_args['n'])").stdout == b"3\n"


def test_files_go_in_under_the_names_that_were_given(belljar, home):
    (home / "a.txt").write_bytes(b"\xff\x00")
    (home / "data").mkdir()
    (home / "data" / "b.txt").write_text("b")
    code = "print(open('a.txt', 'rb').read(), open('in/c.txt', 'rb').read(), open('data/b.txt').read())"
    done = belljar("run", "--file", "a.txt", "--file", "a.txt:in/c.txt", "--file", "data", "-c", code)
    assert done.stdout == b"b'\\xff\\x00' b'\\xff\\x00' b\n"


def test_changed_files_and_images_come_out_where_asked(belljar, home):
    (home / "in.txt").write_text("untouched")
    code = (
        "import os, matplotlib.pyplot as plt\nos.makedirs('deep'); open('deep/new.txt', 'w').write('made')\n"
        "plt.plot([1, 2]); plt.savefig('figure-1.png')\nNone"
    )
    done = belljar("run", "--file", "in.txt", "--out", "results", "-c", code)
    out = home / "results"
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "deep/new.txt",
        "figure-1.png",
        "figure-2.png",
    ]
    assert (out / "deep/new.txt").read_text() == "made"
    assert (out / "figure-2.png").read_bytes().startswith(b"\x89PNG")
    assert b"belljar: saved results/figure-2.png\n" in done.stderr


def test_images_are_saved_and_named_even_when_not_asked_for(belljar, home):
    done = belljar("run", "-c", "import matplotlib.pyplot as plt\nplt.plot([1, 2]); None")
    assert done.stderr.splitlines()[-1] == b"belljar: saved belljar-out/figure-1.png"
    assert (home / "belljar-out" / "figure-1.png").read_bytes().startswith(b"\x89PNG")


def test_a_path_out_of_the_workspace_is_refused_before_anything_runs(belljar, home):
    (home / "a").write_text("")
    done = belljar("run", "--file", "a:../../etc/x", "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"belljar: ")
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_ends_the_code_with_130(terminal):
    run = terminal("run", "-c", "print('going', flush=True)\nwhile True: pass")
    run.wait_for("going", 60)
    run.type(CTRL_C)
    assert run.wait_for_end() == 130


def test_a_second_ctrl_c_ends_code_that_will_not_stop(terminal):
    # Not `while True: pass`: CPython 3.11 does not cover its jump by the `try` around it.
    code = (
        "print('going', flush=True)\nwhile True:\n try:\n  for _ in iter(int, 1): pass\n"
        " except KeyboardInterrupt: print('no', flush=True)"
    )
    run = terminal("run", "-c", code)
    run.wait_for("going", 60)
    run.type(CTRL_C)
    run.wait_for("no\r\n")
    run.type(CTRL_C)
    assert run.wait_for_end() == 130


def test_a_terminal_gets_what_the_code_wrote_and_nothing_else(terminal):
    run = terminal("run", "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    assert run.wait_for_end(60) == 0
    assert run.raw == "out\r\nerr\r\n"


def test_a_host_is_reached_when_it_is_named_and_told_of_when_it_is_not(belljar):
    get = "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:{}/').read().decode())"
    web = Web()
    try:
        reached = belljar("run", "--engine", "native", "--net", f"127.0.0.1:{web.port}", "-c", get.format(web.port))
    finally:
        web.close()
    refused = belljar("run", "--engine", "native", "-c", get.replace("127.0.0.1:{}", "example.org"))
    assert (reached.returncode, reached.stdout, reached.stderr) == (0, b"hello /\n", b"")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == (
        b"belljar: refused network example.org:80 (network is off); allow hosts with Policy(network=[...])"
    )
