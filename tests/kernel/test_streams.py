from __future__ import annotations


def test_newlines_and_blank_lines_are_exact(guest):
    answered = guest.run("print()\nprint('a\\n\\nb')\nprint('c', end='')")
    assert answered.stdout == "\na\n\nb\nc"


def test_stdout_and_stderr_are_separate_and_in_order(guest):
    answered = guest.run("import sys\nfor n in range(3):\n    print('o', n)\n    print('e', n, file=sys.stderr)")
    assert answered.stdout == "o 0\no 1\no 2\n"
    assert answered.stderr == "e 0\ne 1\ne 2\n"
    assert [event["type"] for event in answered.events[:4]] == ["stdout", "stderr", "stdout", "stderr"]


def test_input_reads_the_given_text_and_then_ends(guest):
    answered = guest.run("a = input('name? ')\nb = input()\nprint(a, b)\ninput()", stdin="Alice\n25\n")
    assert answered.stdout == "name? Alice 25\n"
    assert answered.error["name"] == "EOFError"


def test_input_without_stdin_ends_at_once(guest):
    answered = guest.run("input('anyone? ')")
    assert (answered.stdout, answered.error["name"]) == ("anyone? ", "EOFError")
    assert guest.run("import sys\nsys.stdin.read()").text == "''"


def test_stdin_can_be_iterated_and_read_as_bytes(guest):
    assert guest.run("import sys\n[line for line in sys.stdin]", stdin="a\nb").done["value"] == ["a\n", "b"]
    assert guest.run("sys.stdin.buffer.read()", stdin="é").text == "b'\\xc3\\xa9'"


def test_lone_surrogates_are_escaped_and_nothing_is_lost(guest):
    assert guest.run("print('a\\ud800b')").stdout == "a\\ud800b\n"
    assert guest.run("import sys\nsys.stdin.read() == '\\ud800'", stdin="\ud800").text == "True"


def test_bytes_may_be_written_below_the_text(guest):
    answered = guest.run("import sys\nsys.stdout.buffer.write('é\\n'.encode())\nsys.stdout.flush();")
    assert answered.stdout == "é\n"


def test_streams_that_code_closed_are_there_again(guest):
    guest.run("import sys\nsys.stdout.close()\nsys.stderr.detach()")
    answered = guest.run("import sys\nprint('back')\nprint('also', file=sys.stderr)")
    assert (answered.stdout, answered.stderr) == ("back\n", "also\n")


def test_streams_that_code_closed_are_there_again_over_descriptors(process):
    process.run("import sys\nsys.stdout.close()\nsys.stderr.detach()")
    answered = process.run("import sys\nprint('back')\nprint('also', file=sys.stderr)")
    assert (answered.stdout, answered.stderr) == ("back\n", "also\n")


def test_a_logger_made_in_an_earlier_run_still_writes(guest):
    guest.run("import logging\nlogger = logging.getLogger('test_streams')\nlogger.addHandler(logging.StreamHandler())")
    assert guest.run("logger.warning('still here')").stderr == "still here\n"


def test_redirected_output_stays_with_the_code(guest):
    code = "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n    print('caught')\nout.getvalue()"
    answered = guest.run(code)
    assert (answered.stdout, answered.text) == ("", "'caught\\n'")


def test_output_of_c_code_arrives_before_done(process):
    answered = process.run("import ctypes\nctypes.CDLL(None).printf(b'from C\\n');")
    assert answered.stdout == "from C\n"


def test_output_in_utf8_whatever_the_locale(process):
    assert process.run("print('✓ ² ₁ 日本')").stdout == "✓ ² ₁ 日本\n"
