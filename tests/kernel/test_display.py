from __future__ import annotations

import base64


def shown(answered):
    return [(event["data"], event["main"]) for event in answered.results]


def test_display_shows_before_the_main_value_and_in_order(guest):
    answered = guest.run("print('a')\ndisplay(1, 'two')\nprint('b')\n3")
    assert shown(answered) == [
        ({"text/plain": "1"}, False),
        ({"text/plain": "'two'"}, False),
        ({"text/plain": "3"}, True),
    ]
    assert [event["type"] for event in answered.events] == ["stdout", "result", "result", "stdout", "result", "done"]


def test_display_takes_raw_bundles_and_metadata(guest):
    answered = guest.run(
        "display({'text/html': '<b>x</b>', 'nonsense': 1, 'image/png': b'abc'}, raw=True, metadata={'k': 1})"
    )
    assert answered.results[0]["data"] == {"text/html": "<b>x</b>", "image/png": "YWJj"}
    assert answered.results[0]["metadata"] == {"k": 1}


def test_display_is_there_in_functions_modules_and_after_deletion(guest):
    (guest.workspace / "shows.py").write_text("def show(): display('from a module')")
    assert guest.run("import shows\nshows.show()").results[0]["data"] == {"text/plain": "'from a module'"}
    guest.run("import builtins\ndel builtins.display")
    assert guest.run("display(1)").results != []


def test_every_repr_method_has_its_format(guest):
    code = """
class Rich:
    def __repr__(self): return 'plain'
    def _repr_html_(self): return '<b>html</b>'
    def _repr_markdown_(self): return '**md**'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'png'
    def _repr_pdf_(self): return b'pdf', {'pages': 1}
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1, 2]}
    def _repr_javascript_(self): return 'alert(1)'
Rich()
"""
    answered = guest.run(code)
    assert answered.results[0]["data"] == {
        "text/plain": "plain",
        "text/html": "<b>html</b>",
        "text/markdown": "**md**",
        "image/svg+xml": "<svg/>",
        "image/png": base64.b64encode(b"png").decode(),
        "application/pdf": base64.b64encode(b"pdf").decode(),
        "text/latex": "$x$",
        "application/json": {"a": [1, 2]},
        "application/javascript": "alert(1)",
    }
    assert answered.results[0]["metadata"] == {"application/pdf": {"pages": 1}}


def test_a_mimebundle_comes_first_and_is_completed(guest):
    code = """
class Rich:
    def __repr__(self): return 'plain'
    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/html': 'bundle', 'application/x+json': '{"a": 1}'}, {'m': 1}
    def _repr_html_(self): return 'method'
    def _repr_latex_(self): return '$x$'
Rich()
"""
    answered = guest.run(code)
    assert answered.results[0]["data"] == {
        "text/plain": "plain",
        "text/html": "bundle",
        "application/x+json": {"a": 1},
        "text/latex": "$x$",
    }
    assert answered.results[0]["metadata"] == {"m": 1}


def test_a_failing_format_is_skipped(guest):
    code = "class R:\n    def __repr__(self): return 'r'\n    def _repr_html_(self): 1/0\n    def _repr_json_(self): return object()\n    def _repr_svg_(self): return 5\n    _repr_png_ = None\n    _repr_latex_ = property(lambda s: 1/0)\nR()"
    assert shown(guest.run(code)) == [({"text/plain": "r"}, True)]


def test_classes_and_objects_that_answer_everything_are_plain(guest):
    guest.run("class R:\n    def _repr_html_(self): return 'x'")
    assert list(guest.run("R").results[0]["data"]) == ["text/plain"]
    answered = guest.run("from unittest.mock import MagicMock\nMagicMock()")
    assert list(answered.results[0]["data"]) == ["text/plain"]


def test_a_failing_repr_of_the_last_expression_is_the_runs_error(guest):
    answered = guest.run("class R:\n    def __repr__(self): return 1/0\nR()")
    assert answered.error["name"] == "ZeroDivisionError"
    assert answered.error["line"] == 2
    assert answered.results == []
    assert guest.run("class S:\n    def __repr__(self): return 5\nS()").error["name"] == "TypeError"


def test_a_long_text_is_cut_with_a_mark(guest):
    for code in ("'x' * 100_000_000", "list(range(3_000_000))", "{n: n for n in range(100_000)}", "b'x' * 10_000_000"):
        text = guest.run(code).text
        assert 60_000 < len(text) < 70_000
        assert "…" in text


def test_a_repr_of_a_hundred_megabytes_is_cut(guest):
    text = guest.run("class R:\n    def __repr__(self): return 'y' * 100_000_000\nR()").text
    assert len(text) < 70_000
    assert "characters left out" in text


def test_html_over_its_cap_is_dropped_and_the_text_kept(guest):
    answered = guest.run(
        "class R:\n    def __repr__(self): return 'r'\n    def _repr_html_(self): return 'x' * 3_000_000\nR()"
    )
    assert shown(answered) == [({"text/plain": "r"}, True)]


def test_results_over_the_cap_are_dropped_and_said_so(guest):
    guest.request(type="configure", env={}, path=[], results_bytes=1000)
    answered = guest.run("for _ in range(10): display('x' * 300)\n'end'")
    assert len(answered.results) == 4
    assert (answered.done["status"], answered.done["truncated"], answered.text) == ("ok", True, "'end'")
    assert guest.run("1").done["truncated"] is False


def test_a_str_subclass_as_repr_is_a_string(guest):
    code = "class S(str):\n    def __len__(self): 1/0\n    def __str__(self): 1/0\nclass R:\n    def __repr__(self): return S('fine')\nR()"
    assert guest.run(code).text == "fine"


def test_pandas_has_text_html_and_a_table(guest, science):
    answered = guest.run("import pandas as pd\npd.DataFrame({'x': [1, 2], 'y': [0.5, None]})")
    data = answered.results[0]["data"]
    assert data["text/plain"] == "   x    y\n0  1  0.5\n1  2  NaN"
    assert "<table" in data["text/html"]
    assert data["application/vnd.belljar.table+json"] == {
        "shape": [2, 2],
        "columns": ["x", "y"],
        "dtypes": ["int64", "float64"],
        "records": [{"x": 1, "y": 0.5}, {"x": 2, "y": None}],
    }
    series = guest.run("pd.Series([1, 2], name='s')").results[0]["data"]
    assert series["application/vnd.belljar.table+json"]["columns"] == ["s"]
    assert "text/html" not in series


def test_a_large_table_is_capped_at_a_thousand_records(guest, science):
    data = guest.run("import pandas as pd\npd.DataFrame({'x': range(5000)})").results[0]["data"]
    table = data["application/vnd.belljar.table+json"]
    assert (table["shape"], len(table["records"])) == ([5000, 1], 1000)


def test_a_pillow_image_is_a_png_and_show_shows_it(guest, science):
    answered = guest.run("from PIL import Image\nimage = Image.new('RGB', (4, 4), 'red')\nimage.show()\nimage")
    assert [event["main"] for event in answered.results] == [False, True]
    for event in answered.results:
        assert set(event["data"]) == {"text/plain", "image/png"}
        assert base64.b64decode(event["data"]["image/png"]).startswith(b"\x89PNG")


def test_sympy_has_latex(guest, science):
    data = guest.run("import sympy\nsympy.sqrt(sympy.Symbol('x'))").results[0]["data"]
    assert data == {"text/plain": "sqrt(x)", "text/latex": "$\\displaystyle \\sqrt{x}$"}


def test_plotly_figures_are_shown_as_data(guest):
    answered = guest.run("import plotly.graph_objects as go\nfig = go.Figure(go.Bar(y=[1, 2]))\nfig.show()\nfig")
    assert [event["main"] for event in answered.results] == [False, True]
    for event in answered.results:
        assert event["data"]["application/vnd.plotly.v1+json"]["data"][0]["type"] == "bar"
        assert "text/html" in event["data"]


def test_altair_charts_are_shown_as_data(guest):
    code = "import altair as alt\nalt.Chart(alt.Data(values=[{'a': 1}])).mark_bar().encode(x='a:Q')"
    data = guest.run(code).results[0]["data"]
    assert any(mime.startswith("application/vnd.vegalite.v") for mime in data)


def test_numpy_arrays_are_text(guest, science):
    assert shown(guest.run("import numpy as np\nnp.arange(3)")) == [({"text/plain": "array([0, 1, 2])"}, True)]
