"""Cases: what one run leaves behind is there in the next, until reset."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, Listing, Read, Reset, Write, case, run
from belljar.engines.conformance.expect import error, file, ok

CASES: list[Case] = [
    case("a variable is kept", run("x = 41", ok()), run("x + 1", ok(text="42", value=42))),
    case("an import is kept", run("import math as m", ok()), run("m.floor(2.7)", ok(text="2", value=2))),
    case("a function is kept", run("def f(a, b=2):\n    return a * b", ok()), run("f(21)", ok(text="42", value=42))),
    case(
        "a class and its objects are kept",
        run(
            "class P:\n    def __init__(self, n): self.n = n\n    def up(self): self.n += 1; return self\np = P(1)",
            ok(),
        ),
        run("p.up().up().n", ok(text="3", value=3)),
        run("isinstance(p, P)", ok(text="True", value=True)),
    ),
    case(
        "a generator goes on where it stopped",
        run("g = iter([10, 20, 30])\nnext(g)", ok(text="10", value=10)),
        run("next(g)", ok(text="20", value=20)),
    ),
    case(
        "a closure keeps its cell",
        run(
            "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n"
            "    return up\nup = counter()",
            ok(),
        ),
        run("up(); up()", ok(text="2", value=2)),
    ),
    case("an object keeps its identity", run("a = []\nb = a", ok()), run("b.append(1)\na", ok(text="[1]", value=[1]))),
    case(
        "an open file goes on where it stopped",
        Write("lines.txt", "one\ntwo\n"),
        run("f = open('lines.txt')\nf.readline()", ok(text="'one\\n'", value="one\n")),
        run("f.readline()", ok(text="'two\\n'", value="two\n")),
    ),
    case(
        "a random seed is kept",
        run("import random\nrandom.seed(7)\na = random.random()", ok()),
        run(
            "b = random.random()\nrandom.seed(7)\n[a, b] == [random.random(), random.random()]",
            ok(text="True", value=True),
        ),
    ),
    case(
        "a name that is deleted is gone",
        run("x = 1", ok()),
        run("del x", ok()),
        run("x", error("NameError", "name 'x' is not defined")),
    ),
    case(
        "a function sees a global that was changed later",
        run("x = 1\ndef f(): return x", ok()),
        run("x = 2\nf()", ok(text="2", value=2)),
    ),
    case(
        "objects of the user's own classes can be pickled",
        run("class P:\n    pass", ok()),
        run(
            "import pickle\ntype(pickle.loads(pickle.dumps(P()))) is P",
            ok(text="True", value=True),
        ),
    ),
    case(
        "a dataclass of an earlier run works",
        run(
            "from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int\n    b: str = 'x'",
            ok(),
        ),
        run("D(1)", ok(text="D(a=1, b='x')")),
    ),
    case(
        "an enum of an earlier run works",
        run("import enum\nclass C(enum.Enum):\n    RED = 1", ok()),
        run("C.RED", ok(text="<C.RED: 1>")),
    ),
    case(
        "runs are counted",
        run("1", ok(text="1", value=1, execution_count=1)),
        run("2", ok(text="2", value=2, execution_count=2)),
        run("1/0", error("ZeroDivisionError", "division by zero", execution_count=3)),
        run("4", ok(text="4", value=4, execution_count=4)),
    ),
    case(
        "an error in one run leaves the next whole",
        run("1/0", error("ZeroDivisionError", "division by zero")),
        run("print('fine')", ok("fine\n")),
    ),
    case(
        "the working folder that the code changed to does not outlive the run",
        run("import os\nos.mkdir('sub')\nos.chdir('sub')", ok()),
        run("os.getcwd()", ok(text="'/workspace'", value="/workspace")),
    ),
    case(
        "a thread goes on between runs",
        run(
            "import threading\ngo, done = threading.Event(), threading.Event()\n"
            "t = threading.Thread(target=lambda: (go.wait(20), done.set()), daemon=True)\nt.start()",
            ok(),
        ),
        run("go.set()\ndone.wait(20)", ok(text="True", value=True)),
    ),
    case(
        "reset forgets variables and imports",
        run("x = 1\nimport math", ok()),
        Reset(),
        run("x", error("NameError", "name 'x' is not defined")),
        run("math", error("NameError", "name 'math' is not defined")),
        tags="reset",
    ),
    case(
        "reset keeps the files",
        run("n = open('a.txt', 'w').write('kept')", ok(files=[file("a.txt", 4)])),
        Reset(),
        Listing("", [("a.txt", "file", 4)]),
        Read("a.txt", b"kept"),
        run("open('a.txt').read()", ok(text="'kept'", value="kept")),
        tags="reset",
    ),
    case(
        "reset forgets what was patched",
        run("import json\njson.dumps = lambda x: 'patched'", ok()),
        Reset(),
        run("import json\njson.dumps(1)", ok(text="'1'", value="1")),
        tags="reset",
    ),
    case(
        "reset twice is the same as once",
        run("x = 1", ok()),
        Reset(),
        Reset(),
        run("'x' in globals()", ok(text="False", value=False)),
        tags="reset",
    ),
    case(
        "a fresh sandbox has no names but Python's own",
        run(
            "[n for n in globals() if not n.startswith('__')]",
            ok(text="[]", value=[]),
        ),
    ),
    case(
        "a module that the code changed stays changed",
        run("import math\nmath.tau = 6", ok()),
        run("math.tau", ok(text="6", value=6)),
    ),
    case(
        "the underscore is an ordinary name",
        run("_ = 5\n_x = 6\n__y = 7", ok()),
        run("1", ok(text="1", value=1)),
        run("(_, _x, __y)", ok(text="(5, 6, 7)", value=[5, 6, 7])),
    ),
    case(
        "a big object is kept",
        run("data = list(range(1_000_000))", ok()),
        run("sum(data)", ok(text="499999500000", value=499999500000)),
    ),
]
