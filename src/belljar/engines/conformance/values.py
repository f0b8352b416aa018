"""Cases: the last expression as plain JSON data, where it can be that."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import ok, result

NAN = "float('nan')"

CASES: list[Case] = [
    case("a number is its own value", run("3.5", ok(text="3.5", value=3.5))),
    case(
        "true and false are values",
        run("True", ok(text="True", value=True)),
        run("False", ok(text="False", value=False)),
    ),
    case(
        "zero and empty text are values, not nothing",
        run("0", ok(text="0", value=0)),
        run("''", ok(text="''", value="")),
    ),
    case("a whole number beyond 64 bits is exact", run("2**70", ok(text=str(2**70), value=2**70))),
    case(
        "a negative zero and tiny numbers are exact",
        run("[-0.5, 1e-300]", ok(text="[-0.5, 1e-300]", value=[-0.5, 1e-300])),
    ),
    case("not-a-number is null", run(NAN, ok(text="nan", value=None))),
    case(
        "infinities are null, also inside",
        run(
            "[1.0, float('inf'), -float('inf')]",
            ok(text="[1.0, inf, -inf]", value=[1.0, None, None]),
        ),
    ),
    case("a tuple becomes a list", run("(1, 'a', None)", ok(text="(1, 'a', None)", value=[1, "a", None]))),
    case(
        "nested data keeps its shape",
        run(
            "{'a': [1, {'b': (2,)}], 'c': None}",
            ok(text="{'a': [1, {'b': (2,)}], 'c': None}", value={"a": [1, {"b": [2]}], "c": None}),
        ),
    ),
    case(
        "an empty list and an empty dict are values",
        run("[]", ok(text="[]", value=[])),
        run("{}", ok(text="{}", value={})),
    ),
    case(
        "an object has text but no value",
        run(
            "class A:\n    def __repr__(self): return 'A'\nA()",
            ok(text="A"),
        ),
    ),
    case("bytes have text but no value", run("b'abc'", ok(text="b'abc'"))),
    case("a complex number has text but no value", run("1+2j", ok(text="(1+2j)"))),
    case(
        "data that contains itself has no value and does no harm",
        run(
            "a = []\na.append(a)\na",
            ok(text="[[...]]"),
        ),
    ),
    case(
        "data nested deeper than may be sent has text but no value",
        run("a = 0\nfor _ in range(200):\n    a = [a]\na", ok(text="[" * 200 + "0" + "]" * 200)),
    ),
    case("a silenced result has no value", run("5;", ok())),
    case("a displayed object is not the value", run("display(5)\nNone", ok(results=[result("5")]))),
    case(
        "text with every kind of quote is exact",
        run(
            "'\"' + \"'\" + '\\\\' + '\\n'",
            ok(text="'\"\\'\\\\\\n'", value="\"'\\\n"),
        ),
    ),
    case(
        "a numpy number is its plain value",
        run(
            "import numpy as np\nnp.float64(2.5)",
            ok(text="np.float64(2.5)", value=2.5),
        ),
        needs="numpy",
    ),
    case(
        "a numpy array is nested lists",
        run(
            "import numpy as np\nnp.arange(6).reshape(2, 3)",
            ok(text="array([[0, 1, 2],\n       [3, 4, 5]])", value=[[0, 1, 2], [3, 4, 5]]),
        ),
        needs="numpy",
    ),
    case(
        "numpy values inside data are plain",
        run(
            "import numpy as np\nx = {'n': np.int64(3), 'b': np.bool_(True), 'a': np.array([1.5, np.nan])}\nx",
            ok(
                text="{'n': np.int64(3), 'b': np.True_, 'a': array([1.5, nan])}",
                value={"n": 3, "b": True, "a": [1.5, None]},
            ),
        ),
        needs="numpy",
    ),
    case(
        "an array of no dimensions is its number",
        run(
            "import numpy as np\nnp.array(7)",
            ok(text="array(7)", value=7),
        ),
        needs="numpy",
    ),
]
