"""Cases: an exception is data: its name, its text, the user's own frames, its line and its code."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import HEADER, error, frame, ok

CHAINED = "\nDuring handling of the above exception, another exception occurred:\n"
CAUSED = "\nThe above exception was the direct cause of the following exception:\n"

CASES: list[Case] = [
    case(
        "a division by zero is a runtime error at its line",
        run(
            "1/0",
            error("ZeroDivisionError", "division by zero"),
        ),
    ),
    case(
        "the line is that of the failing statement",
        run(
            "x = 1\n\n\nx / 0\nprint('never')",
            error("ZeroDivisionError", "division by zero", line=4),
        ),
    ),
    case("a name that is not defined", run("nobody", error("NameError", "name 'nobody' is not defined"))),
    case("a key that is missing is shown by its repr", run("{}['k']", error("KeyError", "'k'"))),
    case("an index out of range", run("[][0]", error("IndexError", "list index out of range"))),
    case("a wrong type", run("'a' + 1", error("TypeError", 'can only concatenate str (not "int") to str'))),
    case("a wrong value", run("int('x')", error("ValueError", "invalid literal for int() with base 10: 'x'"))),
    case(
        "an attribute that is missing", run("(1).foo", error("AttributeError", "'int' object has no attribute 'foo'"))
    ),
    case("an assertion with a message", run("assert 1 > 2, 'math holds'", error("AssertionError", "math holds"))),
    case("an assertion without a message", run("assert 1 > 2", error("AssertionError", ""))),
    case("a message over several lines", run("raise ValueError('a\\nb')", error("ValueError", "a\nb"))),
    case("an exception class that is raised without being called", run("raise KeyError", error("KeyError", ""))),
    case("an exception with several arguments", run("raise ValueError(1, 'b')", error("ValueError", "(1, 'b')"))),
    case(
        "a file that is missing",
        run(
            "open('nowhere.txt')",
            error("FileNotFoundError", "[Errno 2] No such file or directory: 'nowhere.txt'"),
        ),
    ),
    case(
        "an exception of the user's own class",
        run(
            "class TooHot(Exception):\n    pass\nraise TooHot('41°')",
            error(
                "TooHot",
                "41°",
                line=3,
                traceback="\n".join([HEADER, frame(3, "<module>", "raise TooHot('41°')"), "TooHot: 41°"]),
            ),
        ),
    ),
    case(
        "an exception whose text cannot be made",
        run(
            "class Bad(Exception):\n    def __str__(self):\n        raise RuntimeError('no')\nraise Bad()",
            error(
                "Bad",
                "<exception str() failed>",
                line=4,
                traceback="\n".join([HEADER, frame(4, "<module>", "raise Bad()"), "Bad: <exception str() failed>"]),
            ),
        ),
    ),
    case(
        "raising what is no exception",
        run(
            "raise 5",
            error("TypeError", "exceptions must derive from BaseException"),
        ),
    ),
    case(
        "a failing function shows both frames",
        run(
            "def f(x):\n    return 1 / x\n\nf(0)",
            error(
                "ZeroDivisionError",
                "division by zero",
                line=2,
                frames=[(4, "<module>", "f(0)"), (2, "f", "return 1 / x")],
            ),
        ),
    ),
    case(
        "a function of an earlier run shows its own line there, and the error's line is in this run",
        run("\n\ndef f(x):\n    return 1 / x", ok()),
        run(
            "f(0)",
            error(
                "ZeroDivisionError",
                "division by zero",
                line=1,
                frames=[(1, "<module>", "f(0)"), (4, "f", "return 1 / x")],
            ),
        ),
    ),
    case(
        "functions of three runs show their own source lines",
        run("def a():\n    raise ValueError('deep')", ok()),
        run("def b():\n    # a comment\n    a()", ok()),
        run(
            "x = 1\nb()",
            error(
                "ValueError",
                "deep",
                line=2,
                frames=[
                    (2, "<module>", "b()"),
                    (3, "b", "a()"),
                    (2, "a", "raise ValueError('deep')"),
                ],
            ),
        ),
    ),
    case(
        "a method, a lambda and a comprehension are named in the frames",
        run(
            "class A:\n    def m(self):\n        return (lambda: 1 / 0)()\nA().m()",
            error(
                "ZeroDivisionError",
                "division by zero",
                line=3,
                frames=[
                    (4, "<module>", "A().m()"),
                    (3, "m", "return (lambda: 1 / 0)()"),
                    (3, "<lambda>", "return (lambda: 1 / 0)()"),
                ],
            ),
        ),
    ),
    case(
        "an error while handling another shows both",
        run(
            "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['k']",
            error(
                "KeyError",
                "'k'",
                line=4,
                traceback="\n".join(
                    [
                        HEADER,
                        frame(2, "<module>", "1 / 0"),
                        "ZeroDivisionError: division by zero",
                        CHAINED,
                        HEADER,
                        frame(4, "<module>", "{}['k']"),
                        "KeyError: 'k'",
                    ]
                ),
            ),
        ),
    ),
    case(
        "an error raised from another shows its cause",
        run(
            "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e",
            error(
                "ValueError",
                "bad",
                line=4,
                traceback="\n".join(
                    [
                        HEADER,
                        frame(2, "<module>", "1 / 0"),
                        "ZeroDivisionError: division by zero",
                        CAUSED,
                        HEADER,
                        frame(4, "<module>", "raise ValueError('bad') from e"),
                        "ValueError: bad",
                    ]
                ),
            ),
        ),
    ),
    case(
        "an error raised from None shows only itself",
        run(
            "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('bad') from None",
            error("ValueError", "bad", line=4),
        ),
    ),
    case(
        "an exception group shows its parts",
        run(
            "raise ExceptionGroup('many', [ValueError('a'), KeyError('b')])",
            error(
                "ExceptionGroup",
                "many (2 sub-exceptions)",
                traceback=(
                    "  + Exception Group Traceback (most recent call last):\n"
                    '  |   File "main.py", line 1, in <module>\n'
                    "  |     raise ExceptionGroup('many', [ValueError('a'), KeyError('b')])\n"
                    "  | ExceptionGroup: many (2 sub-exceptions)\n"
                    "  +-+---------------- 1 ----------------\n"
                    "    | ValueError: a\n"
                    "    +---------------- 2 ----------------\n"
                    "    | KeyError: 'b'\n"
                    "    +------------------------------------"
                ),
            ),
        ),
    ),
    case(
        "a note on an exception is shown",
        run(
            "e = ValueError('x')\ne.add_note('look here')\nraise e",
            error(
                "ValueError",
                "x",
                line=3,
                traceback="\n".join([HEADER, frame(3, "<module>", "raise e"), "ValueError: x", "look here"]),
            ),
        ),
    ),
    case(
        "endless recursion is an error, not a crash",
        run(
            "def f():\n    f()\nf()",
            error(
                "RecursionError",
                "maximum recursion depth exceeded",
                line=2,
                traceback="\n".join(
                    [
                        HEADER,
                        frame(3, "<module>", "f()"),
                        *[frame(2, "f", "f()")] * 3,
                        "  [Previous line repeated]",
                        "RecursionError: maximum recursion depth exceeded",
                    ]
                ),
            ),
        ),
        run("'alive'", ok(text="'alive'", value="alive")),
    ),
    case(
        "a KeyboardInterrupt that the code raises is an ordinary error",
        run(
            "raise KeyboardInterrupt('mine')",
            error("KeyboardInterrupt", "mine"),
        ),
    ),
    case(
        "a frame of the standard library is not the user's",
        run(
            "import json\njson.loads('{')",
            error(
                "JSONDecodeError",
                "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
                line=2,
                traceback="\n".join(
                    [
                        HEADER,
                        frame(2, "<module>", "json.loads('{')"),
                        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line "
                        "1 column 2 (char 1)",
                    ]
                ),
            ),
        ),
    ),
    case(
        "an error keeps what came before it",
        run("a = 1\nb = 2\n1 / 0\nc = 3", error("ZeroDivisionError", "division by zero", line=3)),
        run("(a, b, 'c' in globals())", ok(text="(1, 2, False)", value=[1, 2, False])),
    ),
    case(
        "an error in a thread goes to standard error and is no error of the run",
        run(
            "import threading, sys\n"
            "threading.excepthook = lambda a: print('hook', a.exc_type.__name__, file=sys.stderr)\n"
            "t = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()",
            ok(stderr="hook ZeroDivisionError\n"),
        ),
    ),
    case(
        "an exception that was caught is no error",
        run(
            "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(e)",
            ok("division by zero\n"),
        ),
    ),
    case(
        "a traceback that the code prints has the user's frames",
        run(
            "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()",
            ok(stderr=f"{HEADER}\n{frame(3, '<module>', '1 / 0')}\nZeroDivisionError: division by zero\n"),
        ),
    ),
    case(
        "an error in a finally block still shows both",
        run(
            "try:\n    raise ValueError('first')\nfinally:\n    raise TypeError('second')",
            error(
                "TypeError",
                "second",
                line=4,
                traceback="\n".join(
                    [
                        HEADER,
                        frame(2, "<module>", "raise ValueError('first')"),
                        "ValueError: first",
                        CHAINED,
                        HEADER,
                        frame(4, "<module>", "raise TypeError('second')"),
                        "TypeError: second",
                    ]
                ),
            ),
        ),
    ),
]
