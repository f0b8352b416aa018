"""Cases: the last expression and displayed objects become results, in order and in every format they have."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import error, ok, result

HTML_CLASS = (
    "class Page:\n    def _repr_html_(self):\n        return '<b>hi</b>'\n"
    "    def __repr__(self):\n        return 'Page'\n"
)

CASES: list[Case] = [
    case("the last expression is the main result", run("1 + 1", ok(text="2", value=2))),
    case("only the last expression is a result", run("1\n2\n3", ok(text="3", value=3))),
    case("a result after statements", run("x = 20\nx * 2 + 2", ok(text="42", value=42))),
    case("an assignment is no result", run("x = 5", ok())),
    case("None is no result", run("None", ok())),
    case("a call that returns None is no result", run("print('x')", ok("x\n"))),
    case("a semicolon at the end silences the result", run("1 + 1;", ok())),
    case("a semicolon and a comment at the end silence the result", run("1 + 1;  # quiet", ok())),
    case("a semicolon inside does not silence the result", run("x = 1; x + 1", ok(text="2", value=2))),
    case("a semicolon in a string does not silence the result", run("'a;'", ok(text="'a;'", value="a;"))),
    case("a comment after the last expression changes nothing", run("1 + 1  # two", ok(text="2", value=2))),
    case("an expression in a loop is no result", run("for i in range(3):\n    i", ok())),
    case("an expression in an if is no result", run("if True:\n    5", ok())),
    case("an expression over several lines is one result", run("(1 +\n 2 +\n 3)", ok(text="6", value=6))),
    case("a text result is its repr", run("'it\\'s'", ok(text='"it\'s"', value="it's"))),
    case("a long text result is whole", run("'ab' * 5000", ok(text=repr("ab" * 5000), value="ab" * 5000))),
    case(
        "a result over several lines keeps its lines",
        run(
            "class Poem:\n    def __repr__(self):\n        return 'one\\n\\ntwo'\nPoem()",
            ok(text="one\n\ntwo"),
        ),
    ),
    case("a function is a result", run("def f(): pass\nf", ok(text="<function f at 0x…>"))),
    case("a class is a result", run("class A: pass\nA", ok(text="<class '__main__.A'>"))),
    case("an exception that is not raised is a result", run("ValueError('x')", ok(text="ValueError('x')"))),
    case("Ellipsis is a result", run("...", ok(text="Ellipsis"))),
    case(
        "a docstring alone is a result",
        run('"""only\na docstring"""', ok(text="'only\\na docstring'", value="only\na docstring")),
    ),
    case("a type annotation alone is no result", run("x: int", ok())),
    case(
        "a generator is not consumed by being shown",
        run(
            "g = (i for i in range(3))\ng",
            ok(text="<generator object <genexpr> at 0x…>"),
        ),
        run("list(g)", ok(text="[0, 1, 2]", value=[0, 1, 2])),
    ),
    case("display shows without being the main result", run("display(42)", ok(results=[result("42")]))),
    case(
        "display needs no import and takes several objects",
        run(
            "display('a', 2)",
            ok(results=[result("'a'"), result("2")]),
        ),
    ),
    case(
        "displayed objects come before the main result, in order",
        run(
            "display(1)\ndisplay(2)\n3",
            ok(results=[result("1"), result("2"), result("3", main=True)], value=3),
        ),
    ),
    case(
        "display in a function works",
        run(
            "def show():\n    display('inside')\nshow()",
            ok(results=[result("'inside'")]),
        ),
    ),
    case(
        "display is also found in IPython's place when IPython is missing",
        run(
            "try:\n    from IPython.display import display as d\nexcept ImportError:\n    d = display\nd(7)",
            ok(results=[result("7")]),
        ),
    ),
    case(
        "results shown before an error are kept",
        run(
            "display('kept')\n1 / 0",
            error("ZeroDivisionError", "division by zero", line=2, results=[result("'kept'")]),
        ),
    ),
    case(
        "the same object displayed twice is two results",
        run(
            "x = [1]\ndisplay(x)\nx.append(2)\ndisplay(x)",
            ok(results=[result("[1]"), result("[1, 2]")]),
        ),
    ),
    case(
        "_repr_html_ gives html beside the text",
        run(
            HTML_CLASS + "Page()",
            ok(results=[result("Page", main=True, html="<b>hi</b>")]),
        ),
    ),
    case(
        "_repr_markdown_, _repr_latex_ and _repr_svg_ give their formats",
        run(
            "class M:\n    def __repr__(self): return 'M'\n    def _repr_markdown_(self): return '# M'\n"
            "    def _repr_latex_(self): return '$m$'\n    def _repr_svg_(self): return '<svg></svg>'\nM()",
            ok(results=[result("M", main=True, markdown="# M", latex="$m$", svg="<svg></svg>")]),
        ),
    ),
    case(
        "_repr_json_ and _repr_javascript_ give their formats",
        run(
            "class J:\n    def __repr__(self): return 'J'\n    def _repr_json_(self): return {'a': [1, None]}\n"
            "    def _repr_javascript_(self): return 'alert(1)'\nJ()",
            ok(results=[result("J", main=True, json={"a": [1, None]}, javascript="alert(1)")]),
        ),
    ),
    case(
        "_repr_mimebundle_ gives a whole bundle, with types that have no field of their own",
        run(
            "class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "        return {'text/plain': 'B', 'text/html': '<i>b</i>', 'application/x-own': 'mine'}\nB()",
            ok(results=[result("B", main=True, html="<i>b</i>", extra={"application/x-own": "mine"})]),
        ),
    ),
    case(
        "_repr_mimebundle_ may give metadata too",
        run(
            "class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "        return {'text/plain': 'B'}, {'isolated': True}\nB()",
            ok(results=[result("B", main=True, extra={"metadata": {"isolated": True}})]),
        ),
    ),
    case(
        "a _repr_html_ that gives None gives no html",
        run(
            "class N:\n    def __repr__(self): return 'N'\n    def _repr_html_(self): return None\nN()",
            ok(text="N"),
        ),
    ),
    case(
        "a _repr_html_ that raises leaves the text",
        run(
            "class N:\n    def __repr__(self): return 'N'\n    def _repr_html_(self): raise ValueError('no')\nN()",
            ok(text="N"),
        ),
    ),
    case(
        "an object that answers to every attribute is shown by its repr",
        run(
            "class Any:\n    def __getattr__(self, name): return lambda *a, **k: self\n"
            "    def __repr__(self): return 'Any'\n"
            "Any()",
            ok(text="Any"),
        ),
    ),
    case(
        "a class that has _repr_html_ is itself shown as a class",
        run(
            HTML_CLASS + "Page",
            ok(text="<class '__main__.Page'>"),
        ),
    ),
    case(
        "formats over the cap of results are dropped and marked",
        run(
            "class Big:\n    def __repr__(self): return 'Big'\n    def _repr_svg_(self): return 'x' * 20_000_000\n"
            "display(Big())\ndisplay('small')",
            ok(results=[result("Big"), result("'small'")], truncated=True),
        ),
    ),
    case(
        "a repr that raises is the error of the run",
        run(
            "class Bad:\n    def __repr__(self):\n        raise ValueError('shy')\nBad()",
            error("ValueError", "shy", line=3, frames=[(3, "__repr__", "raise ValueError('shy')")]),
        ),
        run("1", ok(text="1", value=1)),
    ),
    case(
        "a repr that is no text is the error of the run",
        run(
            "class Bad:\n    def __repr__(self): return 5\nBad()",
            error(
                "TypeError",
                "__repr__ returned non-string (type int)",
                line=None,
                traceback="TypeError: __repr__ returned non-string (type int)",
            ),
        ),
    ),
    case(
        "a sympy expression is text and latex",
        run(
            "import sympy\nx = sympy.Symbol('x')\nx**2 / 2",
            ok(results=[result("x**2/2", main=True, latex="$\\displaystyle \\frac{x^{2}}{2}$")]),
        ),
        needs="sympy",
    ),
    case(
        "asking for plotly where it is missing ends in MODULE_NOT_FOUND",
        run(
            "import plotly_is_not_here",
            error(
                "ModuleNotFoundError",
                "No module named 'plotly_is_not_here'",
                code="MODULE_NOT_FOUND",
            ),
        ),
    ),
]
