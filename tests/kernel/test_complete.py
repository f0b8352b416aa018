from __future__ import annotations

import pytest


def completions(guest, code, cursor=None):
    cursor = len(code) if cursor is None else cursor
    return guest.request(type="complete", code=code, cursor=cursor).done["completions"]


def texts(guest, code, cursor=None):
    return [completion["text"] for completion in completions(guest, code, cursor)]


def test_attributes_of_a_live_module(guest):
    guest.run("import math")
    assert completions(guest, "math.sq") == [{"text": "sqrt", "start": 5, "end": 7, "type": "function"}]
    assert {"text": "pi", "start": 5, "end": 6, "type": "variable"} in completions(guest, "math.p")


def test_names_imported_in_the_code_itself(guest):
    assert texts(guest, "import math\nmath.sq") == ["sqrt"]
    assert texts(guest, "import math as m; m.sq") == ["sqrt"]
    assert texts(guest, "from os import path as p\np.joi") == ["join"]
    assert texts(guest, "import xml.dom.minidom as md\nmd.parseS") == ["parseString"]
    assert texts(guest, "import os.path\nos.getcw") == ["getcwd", "getcwdb"]
    assert "sqrt" in texts(guest, "from math import sq")
    assert texts(guest, "import nonexistent_thing as n; n.") == []


def test_names_of_the_session_builtins_and_keywords(guest):
    guest.run("total_cost = 1\ndef total_tax(): pass\nclass TotalThing: pass")
    assert completions(guest, "x = total_") == [
        {"text": "total_cost", "start": 4, "end": 10, "type": "variable"},
        {"text": "total_tax", "start": 4, "end": 10, "type": "function"},
    ]
    assert completions(guest, "TotalT")[0]["type"] == "class"
    assert {"text": "while", "start": 0, "end": 3, "type": "keyword"} in completions(guest, "whi")
    assert {"text": "print", "start": 0, "end": 3, "type": "function"} in completions(guest, "pri")


def test_names_assigned_in_the_code_itself(guest):
    code = "alpha_one, alpha_two = 1, 2\nfor alpha_three in []: pass\nwith open('x') as alpha_four: pass\ndef alpha_five(alpha_six, *alpha_seven): pass\nalpha_"
    assert texts(guest, code) == sorted(
        ["alpha_one", "alpha_two", "alpha_three", "alpha_four", "alpha_five", "alpha_six", "alpha_seven"]
    )


def test_attributes_of_user_objects_without_running_them(guest):
    guest.run("""
ran = []
class Point:
    kind = 'p'
    def __init__(self): self.across, self.inner = 1, 'text'
    @property
    def length(self): ran.append(1); return 'x'
    def move(self): pass
    def __getattr__(self, name): ran.append(name); raise AttributeError
    def __dir__(self): ran.append('dir'); return []
p = Point()
""")
    found = {completion["text"]: completion["type"] for completion in completions(guest, "p.")}
    assert found == {
        "across": "variable",
        "inner": "variable",
        "kind": "variable",
        "length": "property",
        "move": "function",
    }
    assert texts(guest, "p.inner.upp") == ["upper"]
    assert texts(guest, "p.length.upp") == []
    assert texts(guest, "Point.mo") == ["move"]
    assert guest.run("ran").text == "[]"


def test_the_cursor_may_be_in_the_middle(guest):
    guest.run("import math")
    assert completions(guest, "y = math.sq + 1", 11) == [{"text": "sqrt", "start": 9, "end": 11, "type": "function"}]
    assert completions(guest, "é = math.sq", 11)[0]["start"] == 9


def test_private_names_only_when_asked_for(guest):
    guest.run("_secret = 1")
    assert "_secret" not in texts(guest, "")
    assert "_secret" in texts(guest, "_se")


@pytest.mark.parametrize(
    "code",
    [
        "# comm",
        "'in a string",
        "x = 5.",
        "1.",
        "foo().ba",
        "x[0].",
        ")",
        "",
        "\0",
        "\ud800.",
        "." * 1000,
        "(" * 5000,
        "a" * 100_000,
    ],
)
@pytest.mark.parametrize("cursor", [None, -5, 10**9, 0])
def test_garbage_never_raises(guest, code, cursor):
    answered = guest.request(type="complete", code=code, cursor=len(code) if cursor is None else cursor)
    assert answered.done["completions"] is not None
    assert "status" not in answered.done


def test_wrong_types_give_nothing(guest):
    assert guest.request(type="complete", code=5, cursor="x").done["completions"] == []
    assert guest.request(type="complete").done["completions"] == []


def test_modules_after_import(guest):
    assert "math" in texts(guest, "import ma")
    assert "json" in texts(guest, "from js")


def test_a_standard_module_is_not_taken_from_the_workspace(guest):
    (guest.workspace / "colorsys.py").write_text("raise SystemExit('imported by completion')")
    assert "rgb_to_hsv" in texts(guest, "import colorsys\ncolorsys.rgb")


def test_data_frames_complete_well(guest, science):
    guest.run("import pandas as pd\ndf = pd.DataFrame({'price': [1], 'place': [2], 'other col': [3]})")
    assert texts(guest, "df.descr") == ["describe"]
    assert "price" in texts(guest, "df.pri")
    assert texts(guest, "df['pl") == ["place"]
    assert texts(guest, 'df["ot') == ["other col"]
    assert "DataFrame" in texts(guest, "pd.DataF")
    assert "upper" in texts(guest, "df.columns.str.up")


def test_keys_of_dictionaries(guest):
    guest.run("d = {'alpha': 1, 'beta': 2}")
    assert texts(guest, "d['al") == ["alpha"]
