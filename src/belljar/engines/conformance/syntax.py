"""Cases: code that does not compile says where and why, and runs none of its lines."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import ok, syntax_error

CASES: list[Case] = [
    case("two equal signs", run("x = = 1", syntax_error("invalid syntax"))),
    case("an open bracket", run("print((1, 2)\n", syntax_error("'(' was never closed"))),
    case(
        "a bracket that closes another",
        run("x = (1, 2]", syntax_error("closing parenthesis ']' does not match opening parenthesis '('")),
    ),
    case("a bracket too many", run("x = 1)", syntax_error("unmatched ')'"))),
    case("a text that does not end", run("x = 'abc", syntax_error("unterminated string literal (detected at line 1)"))),
    case(
        "a long text that does not end",
        run(
            "x = 1\ny = '''abc\n",
            syntax_error("unterminated triple-quoted string literal (detected at line 3)", line=2),
        ),
    ),
    case("a missing colon", run("if True\n    pass", syntax_error("expected ':'"))),
    case(
        "a missing block",
        run(
            "def f():\nx = 1",
            syntax_error(
                "expected an indented block after function definition on line 1", line=2, name="IndentationError"
            ),
        ),
    ),
    case(
        "an unexpected indent",
        run("x = 1\n    y = 2", syntax_error("unexpected indent", line=2, name="IndentationError")),
    ),
    case(
        "an indent that fits no block",
        run(
            "if True:\n        x = 1\n    y = 2",
            syntax_error(
                "unindent does not match any outer indentation level",
                line=3,
                name="IndentationError",
            ),
        ),
    ),
    case(
        "tabs mixed with spaces",
        run(
            "if True:\n        x = 1\n\ty = 2",
            syntax_error(
                "inconsistent use of tabs and spaces in indentation",
                line=3,
                name="TabError",
                traceback='  File "main.py", line 3\n    \ty = 2\n'
                "TabError: inconsistent use of tabs and spaces in indentation",
            ),
        ),
    ),
    case("return outside a function", run("x = 1\nreturn x", syntax_error("'return' outside function", line=2))),
    case("break outside a loop", run("break", syntax_error("'break' outside loop"))),
    case("a keyword as a name", run("class = 1", syntax_error("invalid syntax"))),
    case(
        "an assignment to a number",
        run("1 = x", syntax_error("cannot assign to literal here. Maybe you meant '==' instead of '='?")),
    ),
    case(
        "a future import that does not exist",
        run(
            "from __future__ import braces",
            syntax_error("not a chance"),
        ),
    ),
    case(
        "print without parentheses",
        run(
            "print 'hello'",
            syntax_error("Missing parentheses in call to 'print'. Did you mean print(...)?"),
        ),
    ),
    case(
        "nothing runs when a later line is wrong",
        run(
            "print('never')\nx = = 1",
            syntax_error("invalid syntax", line=2),
        ),
    ),
    case(
        "a syntax error keeps the state",
        run("x = 41", ok()),
        run("x = = 1", syntax_error("invalid syntax")),
        run("x + 1", ok(text="42", value=42)),
    ),
    case(
        "a syntax error made by eval is a syntax error of its text",
        run(
            "try:\n    eval('1 +')\nexcept SyntaxError as e:\n    print(e.msg)",
            ok("invalid syntax\n"),
        ),
    ),
    case(
        "a nonlocal name at the top",
        run("nonlocal x", syntax_error("nonlocal declaration not allowed at module level")),
    ),
    case(
        "the same argument twice",
        run("def f(a, a): pass", syntax_error("duplicate argument 'a' in function definition")),
    ),
    case("a character that is no Python", run("x = 1 ¿ 2", syntax_error("invalid character '¿' (U+00BF)"))),
]
