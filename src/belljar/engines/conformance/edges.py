"""Cases: odd but legal code runs as Python says it should."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, Raises, case, run
from belljar.engines.conformance.expect import error, ok, syntax_error

INVALID = Raises("InvalidRequest")
DEEP = "(" * 5000 + "1" + ")" * 5000


def cut(text: str) -> str:
    """A text over 64 KiB as results show it."""
    return f"{text[:32768]}\n… {len(text) - 65536} characters left out …\n{text[-32768:]}"


CASES: list[Case] = [
    case("empty code is refused", run("", INVALID)),
    case("code of white space only is refused", run("  \n\t\n", INVALID)),
    case(
        "code with a NUL character is a syntax error",
        run(
            "x = 1\x00",
            error(
                "SyntaxError",
                "source code string cannot contain null bytes",
                line=None,
                code="PYTHON_SYNTAX_ERROR",
                traceback="SyntaxError: source code string cannot contain null bytes",
            ),
        ),
    ),
    case(
        "code with a lone surrogate is a syntax error",
        run(
            "x = '\ud800'",
            error(
                "SyntaxError",
                "the source has lone surrogates, which are not text",
                line=None,
                code="PYTHON_SYNTAX_ERROR",
                traceback="SyntaxError: the source has lone surrogates, which are not text",
            ),
        ),
    ),
    case("code that is not text is refused", run(b"1", INVALID)),  # type: ignore[arg-type]
    case(
        "twenty megabytes of code are refused, and nothing is lost",
        run("x = 7", ok()),
        run("#" * (20 << 20), INVALID),
        run("x", ok(text="7", value=7)),
    ),
    case("a comment alone does nothing", run("# nothing", ok())),
    case("pass does nothing", run("pass", ok())),
    case("code with Windows line ends", run("x = 1\r\nif x:\r\n    print('yes')\r\nx", ok("yes\n", text="1", value=1))),
    case("code with old Mac line ends", run("x = 1\rprint(x)", ok("1\n"))),
    case("code indented with tabs", run("if True:\n\tx = 1\n\tif x:\n\t\tprint('tab')", ok("tab\n"))),
    case("a form feed between lines", run("x = 1\n\x0cprint(x)", ok("1\n"))),
    case("code without a newline at its end after a block", run("for i in range(2):\n    print(i)", ok("0\n1\n"))),
    case("many blank lines around the code", run("\n\n\nx = 1\n\n\nx\n\n\n", ok(text="1", value=1))),
    case(
        "a line of a hundred thousand characters",
        run("x = [" + "1," * 50_000 + "]\nlen(x)", ok(text="50000", value=50_000)),
    ),
    case(
        "ten thousand lines of code",
        run("\n".join(f"x{i} = {i}" for i in range(10_000)) + "\nx9999", ok(text="9999", value=9999)),
    ),
    case(
        "five thousand nested parentheses are an error, not a crash",
        run(
            DEEP,
            syntax_error(
                "too many nested parentheses",
                traceback='  File "main.py", line 1\nSyntaxError: too many nested parentheses',
            ),
        ),
        run("1", ok(text="1", value=1)),
    ),
    case("a line joined by a backslash", run("x = 1 + \\\n    2\nx", ok(text="3", value=3))),
    case(
        "a decorated function as the last statement is no result",
        run("def d(f): return f\n@d\ndef g(): return 1", ok()),
    ),
    case("a class as the last statement is no result", run("class A:\n    x = 1", ok())),
    case(
        "a walrus as the last expression", run("(n := 10)", ok(text="10", value=10)), run("n", ok(text="10", value=10))
    ),
    case("a match statement", run("match [1, 2]:\n    case [a, b]:\n        print(a + b)", ok("3\n"))),
    case("a lambda as the last expression", run("lambda x: x", ok(text="<function <lambda> at 0x…>"))),
    case("a conditional expression", run("'a' if 1 else 'b'", ok(text="'a'", value="a"))),
    case("a starred last expression", run("*range(3),", ok(text="(0, 1, 2)", value=[0, 1, 2]))),
    case(
        "a comprehension sees the globals",
        run("n = 3\n[i * n for i in range(n)]", ok(text="[0, 3, 6]", value=[0, 3, 6])),
    ),
    case("the code is the main module", run("if __name__ == '__main__':\n    print('main')", ok("main\n"))),
    case("the main module is importable by its name", run("x = 5\nimport __main__\n__main__.x", ok(text="5", value=5))),
    case(
        "globals and locals are the same at the top",
        run("x = 1\nglobals() is locals(), globals()['x']", ok(text="(True, 1)", value=[True, 1])),
    ),
    case("exec and eval share the names", run("exec('y = 2')\neval('y + 1')", ok(text="3", value=3))),
    case(
        "exec with its own names leaves ours alone",
        run("d = {}\nexec('z = 1', d)\n'z' in globals(), d['z']", ok(text="(False, 1)", value=[False, 1])),
    ),
    case(
        "a patched print is the user's, and results still work",
        run(
            "import builtins\nold = builtins.print\nbuiltins.print = lambda *a, **k: old('patched', *a, **k)\n"
            "print(1)\n2",
            ok("patched 1\n", text="2", value=2),
        ),
    ),
    case(
        "builtins that were shadowed do not harm the sandbox",
        run("repr = str = len = type = open = print = None", ok()),
        run("[1, 'a']", ok(text="[1, 'a']", value=[1, "a"])),
        run("1/0", error("ZeroDivisionError", "division by zero")),
    ),
    case(
        "builtins that were deleted for all do not harm the sandbox",
        run("import builtins\ndel builtins.repr, builtins.isinstance", ok()),
        run("[1, 'a']", ok(text="[1, 'a']", value=[1, "a"])),
    ),
    case(
        "threads work",
        run(
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
            "    r = list(pool.map(lambda x: x * x, range(5)))\nr",
            ok(text="[0, 1, 4, 9, 16]", value=[0, 1, 4, 9, 16]),
        ),
        tags="threads",
    ),
    case(
        "a process pool by fork works",
        run(
            "import multiprocessing as mp\ndef sq(x): return x * x\n"
            "with mp.get_context('fork').Pool(2) as pool:\n    r = pool.map(sq, range(4))\nr",
            ok(text="[0, 1, 4, 9]", value=[0, 1, 4, 9]),
        ),
        tags="processes",
    ),
    case(
        "sys.executable runs Python",
        run(
            "import subprocess, sys\n"
            "subprocess.check_output([sys.executable, '-c', 'import json; print(json.dumps([1]))'], text=True)",
            ok(text="'[1]\\n'", value="[1]\n"),
        ),
        tags="processes",
    ),
    case(
        "a forked child that exits does not end the run",
        run(
            "import os\npid = os.fork()\nif pid == 0:\n    os._exit(7)\n"
            "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
            ok(text="7", value=7),
        ),
        tags="processes",
    ),
    case(
        "signals can be handled",
        run(
            "import signal, os\nsignal.signal(signal.SIGUSR1, lambda *a: print('got it'))\n"
            "os.kill(os.getpid(), signal.SIGUSR1)",
            ok("got it\n"),
        ),
        tags="processes",
    ),
    case(
        "an exit handler does not run between runs",
        run("import atexit\nh = atexit.register(print, 'bye')", ok()),
        run("1", ok(text="1", value=1)),
    ),
    case(
        "inspect finds the source of a function",
        run(
            "def f():\n    return 1\nimport inspect\ninspect.getsource(f)",
            ok(text="'def f():\\n    return 1\\n'", value="def f():\n    return 1\n"),
        ),
    ),
    case(
        "inspect finds the source of a function of an earlier run",
        run("def f():\n    return 1", ok()),
        run("1", ok(text="1", value=1)),
        run(
            "import inspect\ninspect.getsource(f).strip()",
            ok(text="'def f():\\n    return 1'", value="def f():\n    return 1"),
        ),
    ),
    case(
        "a future import holds for later runs, as in a notebook",
        run("from __future__ import annotations\ndef f(x: nope): pass", ok()),
        run("def g(x: nope): pass\ng.__annotations__", ok(text="{'x': 'nope'}", value={"x": "nope"})),
    ),
    case("sys.argv is that of a script", run("import sys\nsys.argv", ok(text="['main.py']", value=["main.py"]))),
    case(
        "a very long result is cut in its middle, with an explicit mark",
        run("list(range(20_000))", ok(text=cut(str(list(range(20_000)))), value=list(range(20_000)))),
    ),
    case(
        "a trace function that was set does not harm the next run",
        run("import sys\nsys.settrace(lambda *a: None)", ok()),
        run("sys.settrace(None)\n1", ok(text="1", value=1)),
    ),
    case(
        "garbage with a loud finaliser does no harm",
        run("class L:\n    def __del__(self): print('gone')\nl = L()\ndel l", ok("gone\n")),
    ),
    case(
        "temporary files work",
        run(
            "import tempfile\nwith tempfile.NamedTemporaryFile() as t:\n    n = t.write(b'x')\nn", ok(text="1", value=1)
        ),
    ),
    case(
        "time and dates are real",
        run(
            "import time, datetime\ntime.time() > 1_700_000_000, datetime.datetime.now().year >= 2024",
            ok(text="(True, True)", value=[True, True]),
        ),
    ),
    case(
        "random numbers differ between sandboxes but not by fault",
        run(
            "import random, uuid\nlen({random.random() for _ in range(100)}), len(str(uuid.uuid4()))",
            ok(text="(100, 36)", value=[100, 36]),
        ),
    ),
    case(
        "sqlite works",
        run(
            "import sqlite3\nsqlite3.connect(':memory:').execute('select 1 + 1').fetchone()", ok(text="(2,)", value=[2])
        ),
    ),
    case(
        "regular expressions, dates, decimals and fractions work",
        run(
            "import re, decimal, fractions\n"
            "re.findall('[0-9]+', 'a1b22'), str(decimal.Decimal('0.1') + decimal.Decimal('0.2')), "
            "str(fractions.Fraction(1, 3))",
            ok(text="(['1', '22'], '0.3', '1/3')", value=[["1", "22"], "0.3", "1/3"]),
        ),
    ),
]
