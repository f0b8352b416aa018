"""Cases: what a run is given besides its code: standard input, arguments, environment and working folder."""

from __future__ import annotations

import json
from typing import Any

from belljar.engines.conformance.case import Case, Raises, Run, case, run
from belljar.engines.conformance.expect import error, file, ok

NESTED: dict[str, Any] = {"a": [1, 2.5, None, True, {"b": "ü\n\"'\\"}], "": {}}


def argued(args: Any) -> Run:
    """A run that gives its arguments back."""
    return run(
        "import json\nprint(json.dumps(_args, sort_keys=True))", ok(json.dumps(args, sort_keys=True) + "\n"), args=args
    )


STDIN: list[Case] = [
    case(
        "input reads a line of stdin and its prompt is printed",
        run(
            "name = input('Name: ')\nprint(f'Hello {name}!')",
            ok("Name: Hello Ada!\n"),
            stdin="Ada\n",
        ),
    ),
    case(
        "input reads line after line",
        run("[input(), input()]", ok(text="['a', 'b']", value=["a", "b"]), stdin="a\nb\n"),
    ),
    case("a last line without a newline is read", run("input()", ok(text="'end'", value="end"), stdin="end")),
    case(
        "an empty line is an empty text",
        run("[input(), input()]", ok(text="['', 'x']", value=["", "x"]), stdin="\nx\n"),
    ),
    case("input without stdin is an EOFError at once", run("input()", error("EOFError", "EOF when reading a line"))),
    case(
        "input after the end of stdin is an EOFError at once",
        run(
            "a = input()\nb = input('more? ')",
            error("EOFError", "EOF when reading a line", line=2, stdout="more? "),
            stdin="one\n",
        ),
    ),
    case(
        "sys.stdin can be read whole",
        run("import sys\nsys.stdin.read()", ok(text="'a\\nb\\n'", value="a\nb\n"), stdin="a\nb\n"),
    ),
    case(
        "sys.stdin can be iterated",
        run(
            "import sys\n[line.strip() for line in sys.stdin]", ok(text="['1', '2']", value=["1", "2"]), stdin="1\n2\n"
        ),
    ),
    case("sys.stdin without stdin is empty", run("import sys\nsys.stdin.read()", ok(text="''", value=""))),
    case(
        "stdin that was not read does not reach the next run",
        run("input()", ok(text="'a'", value="a"), stdin="a\nb\n"),
        run("input()", error("EOFError", "EOF when reading a line")),
    ),
    case(
        "stdin may be in any language",
        run("input()", ok(text="'Ωmega ☃ 🐍'", value="Ωmega ☃ 🐍"), stdin="Ωmega ☃ 🐍\n"),
    ),
    case(
        "a megabyte of stdin arrives",
        run("import sys\nlen(sys.stdin.read())", ok(text="1000000", value=1_000_000), stdin="z" * 1_000_000),
    ),
    case(
        "sys.stdin.buffer has the bytes of stdin",
        run("import sys\nsys.stdin.buffer.read()", ok(text="b'\\xc3\\xbc\\n'"), stdin="ü\n"),
    ),
]
ARGS: list[Case] = [
    case("args are in _args", run("_args.get('name', 'World')", ok(text="'Ada'", value="Ada"), args={"name": "Ada"})),
    case(
        "empty args are still args",
        run("f\"Hello, {_args.get('name', 'World')}!\"", ok(text="'Hello, World!'", value="Hello, World!"), args={}),
    ),
    case("args may hold null", run("_args", ok(text="[None]", value=[None]), args=[None])),
    case("args that are None are none", run("'_args' in globals()", ok(text="False", value=False), args=None)),
    case("without args there is no _args", run("_args", error("NameError", "name '_args' is not defined"))),
    case(
        "args of one run are gone in the next",
        run("_args", ok(text="[1]", value=[1]), args=[1]),
        run("'_args' in globals()", ok(text="False", value=False)),
    ),
    case(
        "args with every kind of quote, backslash and newline are exact",
        argued({"q": "\"'`\\n\n\r\t\x00{}%s$x", "\\": "'''"}),
    ),
    case("args in any language are exact", argued({"ключ": "значение 🐍 ש"})),
    case("args may be nested", argued(NESTED)),
    case("args may be a list, a number or a text", argued([1, "x"]), argued(5), argued("text")),
    case(
        "a megabyte of args is exact",
        run(
            "len(_args['x']), _args['x'] == 'ab\\n' * 333_333",
            ok(text="(999999, True)", value=[999999, True]),
            args={"x": "ab\n" * 333_333},
        ),
    ),
]
ENVIRONMENT: list[Case] = [
    case(
        "env is in os.environ",
        run("import os\nos.environ['GREETING']", ok(text="'hi ü'", value="hi ü"), env={"GREETING": "hi ü"}),
    ),
    case(
        "env of one run is gone in the next",
        run("import os\nos.getenv('A')", ok(text="'1'", value="1"), env={"A": "1"}),
        run("os.getenv('A')", ok()),
    ),
    case(
        "env that hid another value gives it back",
        run("import os\nos.environ['B'] = 'mine'", ok()),
        run("os.environ['B']", ok(text="'theirs'", value="theirs"), env={"B": "theirs"}),
        run("os.environ['B']", ok(text="'mine'", value="mine")),
    ),
    case(
        "env reaches child processes",
        run("import os\nos.system('echo $C')", ok("see\n", text="0", value=0), env={"C": "see"}),
        tags="processes",
    ),
    case(
        "PYTHONPATH in env is effective for imports",
        run(
            "import helper\nhelper.X",
            ok(text="8", value=8),
            env={"PYTHONPATH": "/workspace/lib:/workspace"},
            files={"lib/helper.py": "X = 8"},
        ),
    ),
    case(
        "the environment names a home and a path, and both are there",
        run(
            "import os\n[os.path.isdir(os.environ['HOME']), bool(os.environ['PATH'])]",
            ok(text="[True, True]", value=[True, True]),
        ),
    ),
    case(
        "HOME is a folder that can be written",
        run("import os\np = os.path.expanduser('~/x')\nopen(p, 'w').write('abc')", ok(text="3", value=3)),
    ),
    case("env whose values are not text is refused", run("1", Raises("InvalidRequest"), env={"A": 1})),
    case(
        "env whose names cannot be names is refused",
        run("1", Raises("InvalidRequest"), env={"A=B": "1"}),
        run("1", Raises("InvalidRequest"), env={"": "1"}),
    ),
]
FOLDERS: list[Case] = [
    case(
        "the working folder is /workspace", run("import os\nos.getcwd()", ok(text="'/workspace'", value="/workspace"))
    ),
    case(
        "cwd is made when it is missing, and is for this run only",
        run("import os\nos.getcwd()", ok(text="'/workspace/a/b'", value="/workspace/a/b"), cwd="/workspace/a/b"),
        run("os.getcwd()", ok(text="'/workspace'", value="/workspace")),
    ),
    case(
        "a cwd that is not absolute is in the workspace",
        run("import os\nos.getcwd()", ok(text="'/workspace/sub'", value="/workspace/sub"), cwd="sub"),
    ),
    case(
        "files are written into cwd", run("n = open('f.txt', 'w').write('x')", ok(files=[file("d/f.txt", 1)]), cwd="d")
    ),
    case(
        "modules in cwd can be imported",
        run("import near\nnear.X", ok(text="4", value=4), cwd="d", files={"d/near.py": "X = 4"}),
    ),
]
CASES: list[Case] = [*STDIN, *ARGS, *ENVIRONMENT, *FOLDERS]
