"""Cases: completion and the list of variables know the live names, and run none of the user's code."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, Complete, Reset, Variables, case, run
from belljar.engines.conformance.expect import ok

HOSTILE = (
    "class Evil:\n    def __repr__(self): print('ran'); raise SystemExit\n    __str__ = __len__ = __dir__ = __repr__\n"
    "    def __getattr__(self, name): print('ran', name); raise KeyError(name)\n    @property\n"
    "    def prop(self): print('ran prop'); return 1\n    attr = 5\nevil = Evil()\n"
)

CASES: list[Case] = [
    case("a module's names complete", run("import math", ok()), Complete("math.sq", only=["math.sqrt"])),
    case("a user's variable completes", run("temperature = 5", ok()), Complete("tempe", only=["temperature"])),
    case(
        "the attributes of a user's object complete",
        run("class P:\n    def walk(self): pass\n    def wait(self): pass\np = P()", ok()),
        Complete("p.wa", only=["p.wait", "p.walk"]),
    ),
    case(
        "names imported in the code itself complete", Complete("import math\nmath.sq", only=["import math\nmath.sqrt"])
    ),
    case(
        "names imported in the code under another name complete",
        Complete("import math as m\nm.flo", only=["import math as m\nm.floor"]),
    ),
    case("keywords and builtins complete", Complete("prin", among=("print",)), Complete("whil", among=("while",))),
    case(
        "completion works in the middle of the code",
        run("value = 1", ok()),
        Complete("print(val) + 1", cursor=9, among=("print(value) + 1",)),
    ),
    case("completion of nothing that exists gives nothing", Complete("nobody_knows.this", only=[])),
    case(
        "completion keeps the letters before it in any language",
        run("größe = 1", ok()),
        Complete("x = grö", only=["x = größe"]),
    ),
    case(
        "completion runs no code of the user",
        run(HOSTILE, ok()),
        Complete("evil.at", never=("ran",)),
        run("print('quiet')", ok("quiet\n")),
    ),
    case(
        "completion hides private names until asked",
        run("class P:\n    x = 1\n    _y = 2\np = P()", ok()),
        Complete("p.", among=("p.x",), never=("p._y", "p.__init__")),
        Complete("p._y", among=("p._y",)),
    ),
    case(
        "completion does not change the state or the count",
        run("x = 1", ok()),
        Complete("import os\nos.pat", among=("import os\nos.path",)),
        run("'os' in globals()", ok(text="False", value=False)),
    ),
    case(
        "variables are listed with type and preview",
        run("n = 5\ns = 'text'\nx = [1, 2]", ok()),
        Variables(
            {"n": {"type": "int", "preview": "5"}, "s": {"type": "str", "preview": "'text'"}, "x": {"type": "list"}}
        ),
    ),
    case("a fresh sandbox has no variables", Variables({})),
    case(
        "modules and private names are not variables",
        run("import math\n_hidden = 1\nseen = 2", ok()),
        Variables({"seen": {"type": "int"}}),
    ),
    case(
        "functions and classes are listed with their type",
        run("def f(): pass\nclass A: pass", ok()),
        Variables({"f": {"type": "function"}, "A": {"type": "type"}}),
    ),
    case(
        "listing variables runs no code of the user",
        run(HOSTILE, ok()),
        Variables({"Evil": {"type": "type"}, "evil": {"type": "Evil"}}),
        run("print('quiet')", ok("quiet\n")),
    ),
    case("a long value has a short preview", run("x = 'y' * 1_000_000", ok()), Variables({"x": {"type": "str"}})),
    case(
        "arrays and tables have a shape",
        run("import numpy as np, pandas as pd\na = np.zeros((2, 3))\nd = pd.DataFrame({'x': [1, 2]})", ok()),
        Variables({"a": {"type": "ndarray", "shape": [2, 3]}, "d": {"type": "DataFrame", "shape": [2, 1]}}),
        needs="pandas",
    ),
    case("reset empties the variables", run("x = 1", ok()), Variables({"x": {"type": "int"}}), Reset(), Variables({})),
]
