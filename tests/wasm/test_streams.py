"""In and out of a wasm sandbox: standard input, arguments, and output that arrives while the code runs."""

from __future__ import annotations

import hashlib
import time

import pytest

from belljar import Execution, Sandbox


def test_input_reads_what_was_given_and_then_ends(bare: Sandbox):
    ran = bare.run("import sys\n[input('name? '), sys.stdin.readline(), sys.stdin.read()]", stdin="Ada\nline\nrest ü\n")
    assert (ran.value, ran.stdout) == (["Ada", "line\n", "rest ü\n"], "name? ")
    assert bare.run("input()", stdin="").error.name == "EOFError"
    assert bare.run("input()").error.name == "EOFError"


@pytest.mark.parametrize(
    "args", [{"name": "Ada"}, [1, 2.5, None, True], "quotes ' \" \\ \n and 🐍", 0, [[[[]]]]],
    ids=["object", "list", "text", "zero", "nested"],
)  # fmt: skip
def test_args_arrive_as_they_are(bare: Sandbox, args: object):
    assert bare.run("_args", args=args).value == args
    assert bare.run("'_args' in globals()").value is False


def test_a_megabyte_of_args_arrives(bare: Sandbox):
    text = "x'\"\\\n" * 200_000
    assert bare.run("import hashlib\nhashlib.sha256(_args.encode()).hexdigest()", args=text).value == (
        hashlib.sha256(text.encode()).hexdigest()
    )


def test_output_arrives_while_the_code_runs(bare: Sandbox):
    moments, ended = [], 0.0
    for item in bare.stream("import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.3)"):
        if isinstance(item, Execution):
            ended = time.monotonic()
            assert item.stdout == "0\n1\n2\n"
        elif item["type"] == "stdout":
            moments.append(time.monotonic())
    assert ended - moments[0] > 0.5


def test_results_arrive_while_the_code_runs(wasm: Sandbox):
    seen = []
    ran = wasm.run(
        "import time\ndisplay('first')\ntime.sleep(0.4)\n'last'",
        on_event=lambda event: seen.append((event["type"], time.monotonic())),
    )
    assert [kind for kind, _ in seen] == ["result", "result"]
    assert seen[1][1] - seen[0][1] > 0.2
    assert ran.value == "last"


def test_streams_keep_apart_and_keep_their_order(bare: Sandbox):
    ran = bare.run(
        "import sys, os\nfor n in range(3):\n    print('out', n)\n    print('err', n, file=sys.stderr)\nos.write(1, b'raw\\n')"
    )
    assert ran.stdout == "out 0\nout 1\nout 2\nraw\n"
    assert ran.stderr == "err 0\nerr 1\nerr 2\n"


def test_characters_cut_in_two_are_put_together(bare: Sandbox):
    code = "import os, time\nfor part in (b'\\xf0\\x9f', b'\\x90\\x8d', b'\\n'):\n    os.write(1, part)\n    time.sleep(0.01)"
    assert bare.run(code).stdout == "🐍\n"


def test_a_flood_of_output_is_cut_and_the_sandbox_goes_on(bare: Sandbox):
    ran = bare.run("for _ in range(20): print('x' * 999_999)")
    assert (ran.status, ran.truncated) == ("ok", True)
    assert len(ran.stdout) <= 1_100_000
    assert bare.run("1 + 1").value == 2


def test_what_javascript_says_is_output(bare: Sandbox):
    assert bare.run("import js\njs.console.log('from the other side')").stdout == "from the other side\n"
