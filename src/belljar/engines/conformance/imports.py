"""Cases: modules that are missing, broken, or the user's own."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, Delete, Write, case, run
from belljar.engines.conformance.expect import HEADER, error, frame, ok

CASES: list[Case] = [
    case(
        "a module that does not exist is MODULE_NOT_FOUND",
        run(
            "import nonexistent",
            error("ModuleNotFoundError", "No module named 'nonexistent'", code="MODULE_NOT_FOUND"),
        ),
    ),
    case(
        "a submodule that does not exist is MODULE_NOT_FOUND",
        run(
            "import json.nothing",
            error("ModuleNotFoundError", "No module named 'json.nothing'", code="MODULE_NOT_FOUND"),
        ),
    ),
    case(
        "a name that a module does not have is IMPORT_ERROR",
        run(
            "from math import nosuch",
            error("ImportError", "cannot import name 'nosuch' from 'math' (unknown location)", code="IMPORT_ERROR"),
        ),
    ),
    case(
        "an ImportError that the code raises is IMPORT_ERROR",
        run(
            "raise ImportError('mine')",
            error("ImportError", "mine", code="IMPORT_ERROR"),
        ),
    ),
    case(
        "a module in the workspace can be imported",
        Write("shapes.py", "SIDES = 3\ndef area(a, b):\n    return a * b\n"),
        run("import shapes\nshapes.area(6, 7), shapes.SIDES", ok(text="(42, 3)", value=[42, 3])),
    ),
    case(
        "a package in the workspace can be imported",
        Write("pkg/__init__.py", ""),
        Write("pkg/inner/__init__.py", "from .leaf import X"),
        Write("pkg/inner/leaf.py", "X = 9"),
        run("from pkg.inner import X\nX", ok(text="9", value=9)),
    ),
    case(
        "an error in a workspace module shows that file and line",
        Write("broken.py", "def go():\n    return 1 / 0\n"),
        run(
            "import broken\nbroken.go()",
            error(
                "ZeroDivisionError",
                "division by zero",
                line=2,
                traceback="\n".join(
                    [
                        HEADER,
                        frame(2, "<module>", "broken.go()"),
                        frame(2, "go", "return 1 / 0", "/workspace/broken.py"),
                        "ZeroDivisionError: division by zero",
                    ]
                ),
            ),
        ),
    ),
    case(
        "an error while a workspace module is imported shows both files",
        Write("broken.py", "x = 1\nraise ValueError('at import')\n"),
        run(
            "import broken",
            error(
                "ValueError",
                "at import",
                traceback="\n".join(
                    [
                        HEADER,
                        frame(1, "<module>", "import broken"),
                        frame(2, "<module>", "raise ValueError('at import')", "/workspace/broken.py"),
                        "ValueError: at import",
                    ]
                ),
            ),
        ),
    ),
    case(
        "a workspace module with bad syntax is a syntax error in its own file",
        Write("broken.py", "x = 1\ny = = 2\n"),
        run(
            "import broken",
            error(
                "SyntaxError",
                "invalid syntax (broken.py, line 2)",
                traceback="\n".join(
                    [
                        HEADER,
                        frame(1, "<module>", "import broken"),
                        '  File "/workspace/broken.py", line 2',
                        "    y = = 2",
                        "SyntaxError: invalid syntax",
                    ]
                ),
            ),
        ),
    ),
    case(
        "a workspace module that appears after a failed import is found",
        run("import late", error("ModuleNotFoundError", "No module named 'late'", code="MODULE_NOT_FOUND")),
        Write("late.py", "X = 1"),
        run("import late\nlate.X", ok(text="1", value=1)),
    ),
    case(
        "a module that is deleted stays imported until reset",
        Write("gone.py", "X = 5"),
        run("import gone", ok()),
        Delete("gone.py"),
        run("gone.X", ok(text="5", value=5)),
    ),
    case(
        "files given to run can be imported by it",
        run(
            "from calculator import Calculator\nfrom data_processor import process_data\n"
            "print(f'10 + 5 = {Calculator().add(10, 5)}')\nprint(f'Processed data: {process_data([1, 2, 3, 4, 5])}')",
            ok("10 + 5 = 15\nProcessed data: [2, 4, 6, 8, 10]\n"),
            files={
                "calculator.py": "class Calculator:\n    def add(self, a, b):\n        return a + b\n",
                "data_processor.py": "def process_data(data):\n    return [x * 2 for x in data]\n",
            },
        ),
    ),
    case(
        "a submodule import with a new name",
        run(
            "import os.path as p, xml.etree.ElementTree as ET\np.basename('/a/b'), ET.fromstring('<a/>').tag",
            ok(text="('b', 'a')", value=["b", "a"]),
        ),
    ),
    case(
        "importing pyplot by its submodule name",
        run("import matplotlib.pyplot as plt\ncallable(plt.plot)", ok(text="True", value=True)),
        needs="matplotlib",
    ),
    case(
        "a workspace module may not shadow what the sandbox itself needs",
        Write("json.py", "raise RuntimeError('shadow')"),
        Write("traceback.py", "raise RuntimeError('shadow')"),
        run("1 / 0", error("ZeroDivisionError", "division by zero")),
        run("[1, 2]", ok(text="[1, 2]", value=[1, 2])),
    ),
]
