"""Cases: what the code writes arrives exactly, and in the right stream."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import error, ok
from belljar.execution import OUTPUT_FOLDER, ChangedFile


def whole(size: int) -> list[ChangedFile]:
    """What a run changed whose output went over the cap, and nothing else."""
    return [ChangedFile(f"{OUTPUT_FOLDER}/run-1.stdout.txt", size, "text/plain")]


CASES: list[Case] = [
    case("print adds one newline", run("print('hello')", ok("hello\n"))),
    case("output without a newline at its end stays without", run("print('hello', end='')", ok("hello"))),
    case("blank lines are kept", run("print('a\\n\\n\\nb')\nprint()\nprint('c')", ok("a\n\n\nb\n\nc\n"))),
    case("carriage returns are kept", run("print('a\\r\\nb\\rc')", ok("a\r\nb\rc\n"))),
    case("tabs, bells and form feeds are kept", run("print('\\t|\\a|\\f|\\v|')", ok("\t|\a|\f|\v|\n"))),
    case("terminal colours are kept", run("print('\\x1b[31mred\\x1b[0m')", ok("\x1b[31mred\x1b[0m\n"))),
    case("a NUL character in output is kept", run("print('a\\x00b')", ok("a\x00b\n"))),
    case("white space at both ends of output is kept", run("print('  \\n x  ')", ok("  \n x  \n"))),
    case("print joins with its separator", run("print(1, 2, 3, sep=', ', end='!\\n')", ok("1, 2, 3!\n"))),
    case("printing nothing prints nothing", run("print(end='')\nprint('', end='')", ok())),
    case("two prints are two lines", run("print(5);print(5)", ok("5\n5\n"))),
    case("a backslash and an n are not a newline", run(r"print('a\\nb', r'c\nd')", ok("a\\nb c\\nd\n"))),
    case(
        "the write method gives the number of characters",
        run("import sys\nsys.stdout.write('héllo\\n')", ok("héllo\n", text="6", value=6)),
    ),
    case("writelines adds nothing", run("import sys\nsys.stdout.writelines(['a', 'b\\n', 'c'])", ok("ab\nc"))),
    case(
        "bytes written to the buffer arrive as text",
        run("import sys\nn = sys.stdout.buffer.write('ü\\n'.encode())", ok("ü\n")),
    ),
    case(
        "text and bytes written to one stream keep their order",
        run(
            "import sys\nprint('one')\nn = sys.stdout.buffer.write(b'two\\n')\nsys.stdout.flush()\nprint('three')",
            ok("one\ntwo\nthree\n"),
        ),
    ),
    case("bytes written to descriptor 1 arrive", run("import os\nn = os.write(1, b'raw\\n')", ok("raw\n"))),
    case("bytes written to descriptor 2 arrive", run("import os\nn = os.write(2, b'raw\\n')", ok(stderr="raw\n"))),
    case(
        "prints and raw writes keep their order",
        run("import os\nfor i in range(3):\n    print(i)\n    n = os.write(1, b'-\\n')", ok("0\n-\n1\n-\n2\n-\n")),
    ),
    case(
        "bytes that are not UTF-8 become replacement characters",
        run("import os\nn = os.write(1, b'a\\xff\\xfeb\\n')", ok("a\ufffd\ufffdb\n")),
    ),
    case(
        "a character that arrives in two pieces is whole",
        run(
            "import os, time\ndata = '☃'.encode()\nn = os.write(1, data[:1])\n"
            "time.sleep(0.05)\nn = os.write(1, data[1:])",
            ok("☃"),
        ),
    ),
    case(
        "standard error is apart from standard output",
        run(
            "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('out again')",
            ok("out\nout again\n", stderr="err\n"),
        ),
    ),
    case(
        "both streams keep their own blank lines when interleaved",
        run(
            "import sys\nfor i in range(3):\n    print(i, '\\n')\n    print('e', i, '\\n', file=sys.stderr)",
            ok("0 \n\n1 \n\n2 \n\n", stderr="e 0 \n\ne 1 \n\ne 2 \n\n"),
        ),
    ),
    case(
        "a warning on standard error is no error",
        run(
            "import warnings\nwarnings.warn('careful')\nprint('fine')",
            ok("fine\n", stderr="main.py:2: UserWarning: careful\n  warnings.warn('careful')\n"),
        ),
    ),
    case(
        "a log record goes to standard error",
        run("import logging\nlogging.warning('low on tea')", ok(stderr="WARNING:root:low on tea\n")),
    ),
    case(
        "flushing changes nothing",
        run(
            "import sys\nprint('a', end='', flush=True)\nsys.stdout.flush()\nprint('b')",
            ok("ab\n"),
        ),
    ),
    case(
        "a hundred thousand lines arrive",
        run(
            "for i in range(100_000):\n    print(i)",
            ok("".join(f"{i}\n" for i in range(100_000))),
        ),
    ),
    case("a line of half a million characters arrives", run("print('x' * 500_000)", ok("x" * 500_000 + "\n"))),
    case(
        "output of a child process arrives",
        run(
            "import subprocess, sys\np = subprocess.run([sys.executable, '-c', 'print(40 + 2)'])",
            ok("42\n"),
        ),
        tags="processes",
    ),
    case(
        "a child's standard error arrives in ours",
        run(
            "import subprocess, sys\n"
            "p = subprocess.run([sys.executable, '-c', 'import sys; print(1, file=sys.stderr); sys.exit(3)'])\n"
            "p.returncode",
            ok(stderr="1\n", text="3", value=3),
        ),
        tags="processes",
    ),
    case(
        "prints and a child's output keep their order",
        run(
            "import subprocess, sys\nprint('before')\n"
            "p = subprocess.run([sys.executable, '-c', 'print(1)'])\nprint('after')",
            ok("before\n1\nafter\n"),
        ),
        tags="processes",
    ),
    case(
        "a child's captured output does not leak into ours",
        run(
            "import subprocess, sys\n"
            "subprocess.run([sys.executable, '-c', 'print(7)'], capture_output=True, text=True).stdout",
            ok(text="'7\\n'", value="7\n"),
        ),
        tags="processes",
    ),
    case(
        "os.system writes to our streams",
        run("import os\nos.system('echo hi')", ok("hi\n", text="0", value=0)),
        tags="processes",
    ),
    case(
        "output that was redirected by the code is the code's own",
        run(
            "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s:\n    print('mine')\n"
            "s.getvalue()",
            ok(text="'mine\\n'", value="mine\n"),
        ),
    ),
    case(
        "a standard output that was replaced does not outlive the run",
        run("import io, sys\nsys.stdout = io.StringIO()\nprint('lost')", ok()),
        run("print('found')", ok("found\n")),
    ),
    case(
        "a standard output that was closed works again in the next run",
        run("import sys\nprint('a')\nsys.stdout.close()", ok("a\n")),
        run("print('b')", ok("b\n")),
    ),
    case(
        "a descriptor 1 that was closed does not lose the sandbox",
        run("import os\nprint('a', flush=True)\nos.close(1)", ok("a\n")),
        run("6 * 7", ok(text="42", value=42)),
    ),
    case(
        "output before an error is kept",
        run(
            "print('so far')\n1 / 0",
            error("ZeroDivisionError", "division by zero", line=2, stdout="so far\n"),
        ),
    ),
    case(
        "output over the cap is dropped and marked, and the run is still fine",
        run(
            "print('x' * 5000)",
            ok("x" * 1048, truncated=True, files=whole(5001)),
        ),
        run("open('.belljar/output/run-1.stdout.txt').read() == 'x' * 5000 + '\\n'", ok(text="True", value=True)),
        output_mb=0.001,
    ),
    case(
        "many small writes over the cap are marked too",
        run(
            "for i in range(5000):\n    print('y', end='')",
            ok("y" * 1048, truncated=True, files=whole(5000)),
        ),
        output_mb=0.001,
    ),
    case("output that just fits is whole", run("print('x' * 1047)", ok("x" * 1047 + "\n")), output_mb=0.001),
    case(
        "the cap is for each run, not for the sandbox",
        run("print('x' * 900)", ok("x" * 900 + "\n")),
        run("print('x' * 900)", ok("x" * 900 + "\n")),
        output_mb=0.001,
    ),
    case(
        "a result still arrives after output over the cap",
        run(
            "print('x' * 5000)\n41 + 1",
            ok(
                "x" * 1048,
                text="42",
                value=42,
                truncated=True,
                files=whole(5001),
            ),
        ),
        output_mb=0.001,
    ),
    case(
        "the output of a thread arrives",
        run(
            "import threading\nt = threading.Thread(target=print, args=('from a thread',))\nt.start(); t.join()",
            ok("from a thread\n"),
        ),
    ),
    case(
        "isatty is false for all three streams",
        run(
            "import sys\n[s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)]",
            ok(text="[False, False, False]", value=[False, False, False]),
        ),
    ),
    case(
        "the streams speak UTF-8",
        run(
            "import sys\n[s.encoding.lower() for s in (sys.stdin, sys.stdout, sys.stderr)]",
            ok(text="['utf-8', 'utf-8', 'utf-8']", value=["utf-8"] * 3),
        ),
    ),
]
