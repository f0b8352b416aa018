"""Cases: every script of the world, and what only looks like text, goes through code, streams and results unharmed."""

from __future__ import annotations

from dataclasses import replace

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import HEADER, error, file, frame, ok

ESCAPED = "\n".join([HEADER, frame(1, "<module>", "raise ValueError('\\ud800')"), "ValueError: \\ud800\n"])

CASES: list[Case] = [
    case(
        "emoji in code, output and result",
        run("print('🐍👩‍👩‍👧‍👦')\n'🇺🇳'", ok("🐍👩‍👩‍👧‍👦\n", text="'🇺🇳'", value="🇺🇳")),
    ),
    case("text from right to left", run("print('שלום', 'مرحبا')", ok("שלום مرحبا\n"))),
    case("combining marks stay apart", run("s = 'e\\u0301'\nprint(s, len(s))", ok("e\u0301 2\n"))),
    case("mathematical signs", run("print('x² ₁ ✓ ∑ ∞ π')", ok("x² ₁ ✓ ∑ ∞ π\n"))),
    case("characters beyond the basic plane count as one", run("len('𝔘𝔫𝔦')", ok(text="3", value=3))),
    case("names may be in any language", run("größe = 3\nπ = 3.14\n变量 = 1\ngröße + 变量", ok(text="4", value=4))),
    case("names are compared in their normal form", run("ﬁ = 1\nfi", ok(text="1", value=1))),
    case("a lone surrogate made by the code is a value like any other", run("len('\\ud800')", ok(text="1", value=1))),
    case("a lone surrogate in a result survives", run("'\\ud800'", ok(text="'\\ud800'", value="\ud800"))),
    case(
        "a lone surrogate in printed text does no harm",
        run(
            "try:\n    print('a\\udc80b')\nexcept UnicodeEncodeError:\n    print('refused')\nprint('on')",
            ok("a\\udc80b\non\n"),
        ),
    ),
    case(
        "a lone surrogate in an error's text does no harm",
        run(
            "raise ValueError('\\ud800')",
            replace(
                error("ValueError", "\ud800", stderr=ESCAPED),
                echoed=False,
            ),
        ),
        run("1", ok(text="1", value=1)),
    ),
    case("a byte order mark before the code is ignored", run("\ufeffprint('x')", ok("x\n"))),
    case(
        "invisible characters in text stay", run("print('a\\u200bb\\u2028c\\u00a0d')", ok("a\u200bb\u2028c\u00a0d\n"))
    ),
    case(
        "line separators that are not newlines do not end a line of code",
        run("x = 'a\u2028b'\nlen(x)", ok(text="3", value=3)),
    ),
    case("a coding comment changes nothing", run("# -*- coding: latin-1 -*-\nprint('ü')", ok("ü\n"))),
    case(
        "triple quotes of both kinds, docstrings and backslashes",
        run(
            "a = '''it's \"\"\" here'''\nb = \"\"\"line\none\\ttab \\\\ end\"\"\"\ndef f():\n    '''Doc\n"
            "    string.'''\nprint(a, b, ' '.join(f.__doc__.split()), sep='|')",
            ok('it\'s """ here|line\none\ttab \\ end|Doc string.\n'),
        ),
    ),
    case(
        "an f-string with quotes, braces and a format",
        run("v = 3.14159\nprint(f'{{{v:>8.2f}}} {\"q\"!r}')", ok("{    3.14} 'q'\n")),
    ),
    case(
        "a text that holds code is only text", run("s = 'print(1)\\n'\ns", ok(text="'print(1)\\n'", value="print(1)\n"))
    ),
    case(
        "percent signs and dollar signs are not expanded",
        run("print('%s %d $HOME ${x} `date`')", ok("%s %d $HOME ${x} `date`\n")),
    ),
    case(
        "an error's text in any language",
        run("raise ValueError('größer als ∞ 🐍')", error("ValueError", "größer als ∞ 🐍")),
    ),
    case(
        "files hold UTF-8 unless told otherwise",
        run(
            "k = open('u.txt', 'w').write('ü☃')\nopen('u.txt').read()",
            ok(text="'ü☃'", value="ü☃", files=[file("u.txt", 5)]),
        ),
    ),
    case(
        "sorting and case follow Unicode, not a locale",
        run("sorted(['b', 'ä', 'A', 'ß'.upper()])", ok(text="['A', 'SS', 'b', 'ä']", value=["A", "SS", "b", "ä"])),
    ),
]
