from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("True", True),
        ("3", 3),
        ("2.5", 2.5),
        ("'é\\ud800'", "é\ud800"),
        ("[1, (2, 3), {'a': None}]", [1, [2, 3], {"a": None}]),
        ("float('nan')", None),
        ("[float('inf'), 1.0]", [None, 1.0]),
        ("{1: 'a', 2.5: 'b', True: 'c', None: 'd'}", {"1": "c", "2.5": "b", "null": "d"}),
        ("10 ** 3999", 10**3999),
        ("10 ** 4100", None),
        ("__import__('collections').Counter('aab')", {"a": 2, "b": 1}),
        ("{1, 2}", None),
        ("b'bytes'", None),
        ("object()", None),
        ("{(1, 2): 3}", None),
        ("[object()]", None),
        ("1j", None),
        ("__import__('datetime').date(2024, 1, 1)", None),
        ("lambda: 1", None),
        ("print", None),
        ("[0] * 2_000_000", None),
        ("'x' * 2_000_000", None),
    ],
)
def test_values_are_plain_data_or_none(guest, code, expected):
    answered = guest.run(code)
    assert answered.done["status"] == "ok"
    assert answered.done["value"] == expected


def test_depth_is_capped(guest):
    assert guest.run("x = 1\nfor _ in range(45): x = [x]\nx").done["value"] is not None
    assert guest.run("for _ in range(20): x = [x]\nx").done["value"] is None


def test_cycles_have_no_value(guest):
    assert guest.run("x = []\nx.append(x)\nx").done["value"] is None
    assert guest.run("d = {}\nd['d'] = d\nd").done["value"] is None


def test_a_list_too_deep_to_show_is_an_error_and_no_crash(guest):
    answered = guest.run("x = []\nfor _ in range(100_000): x = [x]\nx")
    assert answered.error["name"] == "RecursionError"
    assert guest.run("x = None\n1").text == "1"


def test_a_small_object_that_unfolds_without_end_has_no_value(guest):
    assert (
        guest.run(
            "x = [1]\nfor _ in range(40): x = [x, x]\nclass Q:\n    def __repr__(self): return 'q'\n(x, Q())[0] and None"
        ).done["status"]
        == "ok"
    )
    code = "from belljar_kernel.value import value_of\nvalue_of(x) is None"
    assert guest.run(code).text == "True"


@pytest.mark.parametrize("base", ["dict", "list", "tuple", "str", "int", "float"])
def test_hostile_subclasses_have_no_value_and_run_no_code(guest, base):
    code = f"""
ran = []
def tell(*args, **kwargs):
    ran.append(1)
    raise RuntimeError
class Hostile({base}):
    __iter__ = __len__ = items = keys = __getitem__ = __eq__ = __bool__ = __int__ = __float__ = __str__ = tell
    __hash__ = None
    def __repr__(self): return 'hostile'
Hostile()
"""
    answered = guest.run(code)
    assert (answered.text, answered.done["value"]) == ("hostile", None)
    assert guest.run("ran").text == "[]"


def test_numpy_becomes_plain(guest, science):
    guest.run("import numpy as np")
    for code, expected in [
        ("np.int64(5)", 5),
        ("np.float32(0.5)", 0.5),
        ("np.bool_(True)", True),
        ("np.float64('nan')", None),
        ("np.str_('s')", "s"),
        ("np.arange(4).reshape(2, 2)", [[0, 1], [2, 3]]),
        ("np.array([1.0, np.nan])", [1.0, None]),
        ("{'a': np.int8(1), np.int64(2): [np.float64(2.5)]}", {"a": 1, "2": [2.5]}),
        ("np.zeros(1_000_000)", None),
        ("np.array([object()])", None),
        ("np.datetime64('2024-01-01')", None),
        ("np.longdouble(1)", None),
    ]:
        answered = guest.run(code)
        assert answered.done["status"] == "ok", code
        assert answered.done["value"] == expected, code


def test_pandas_becomes_records(guest, science):
    guest.run("import pandas as pd, numpy as np")
    for code, expected in [
        ("pd.DataFrame({'x': [1, 2], 'y': ['a', None]})", [{"x": 1, "y": "a"}, {"x": 2, "y": None}]),
        (
            "pd.DataFrame({'x': [1.5, np.nan], 't': pd.to_datetime(['2024-01-02', None])})",
            [{"x": 1.5, "t": "2024-01-02 00:00:00"}, {"x": None, "t": None}],
        ),
        ("pd.Series([1, 2, 3])", [1, 2, 3]),
        ("pd.Series([True, None], dtype='boolean')", [True, None]),
        ("pd.Index(['a', 'b'])", ["a", "b"]),
        ("pd.DataFrame()", []),
        ("pd.NA", None),
        ("pd.NaT", None),
    ]:
        answered = guest.run(code)
        assert answered.done["status"] == "ok", code
        assert answered.done["value"] == expected, code
    assert len(guest.run("pd.DataFrame({'x': range(5000)})").done["value"]) == 1000
