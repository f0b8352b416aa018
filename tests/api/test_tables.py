"""A table arrives as pandas itself would show it, whatever way of showing was chosen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engines import required

from belljar import Sandbox

SET_UP = """
import numpy as np, pandas as pd
def shown(frame, **options):
    from belljar_kernel import formats, tables
    options = {"display.precision": 6, **{name.replace("__", "."): value for name, value in options.items()}}
    with pd.option_context(*[part for pair in options.items() for part in pair]):
        made, told = tables.Table(frame).rendered(), formats.bundle_of(frame)[0]
        text = formats.cap(repr(frame), formats.TEXT_CHARS)
        assert (told["text/plain"], told.get("text/html")) == (text, frame._repr_html_()), options
    return bool(made)
dates = pd.date_range("2024-01-31", periods=3, freq="ME")
"""
FRAMES = [
    "pd.DataFrame({'a': [1, 2, 3, 4], 'b': [0.5, 1.5, None, 3.5]}).describe()",
    "pd.DataFrame()",
    "pd.DataFrame(columns=['a', 'b'])",
    "pd.DataFrame({'x': range(200), 'y': [n / 7 for n in range(200)]})",
    "pd.DataFrame({f'c{n}': [n, -n * 1e9] for n in range(40)})",
    "pd.DataFrame(np.arange(10_000).reshape(100, 100) / 3)",
    "pd.DataFrame({'when': dates, 'kind': pd.Categorical(['a', 'b', 'a']), 'ok': [True, None, False]}, index=dates)",
    "pd.DataFrame({'text': ['x' * 200, '<b>&\\n', 'ü 漢字 😀']})",
    "pd.DataFrame({('a', 'x'): [1, 2], ('a', 'y'): [3, 4]}, index=pd.MultiIndex.from_tuples([('p', 1), ('p', 2)]))",
    "pd.DataFrame([[1, 2], [3, 4]], columns=['same', 'same']).rename_axis('rows').rename_axis('columns', axis=1)",
    "pd.DataFrame({'o': [[1, 2], {'a': 1}, None], 'c': [1 + 2j, 0j, -1j], 't': pd.to_timedelta([1, 2, 3], 'h')})",
    "pd.DataFrame({'spaces': ['a  b', ' c ', 'd   e  f']}, index=['x  y', 'z', ''])",
    "pd.DataFrame([[1, 'a', 2.5], [3, 'b', 4.5]], columns=['same', 'other', 'same'])",
    "pd.DataFrame({'n': [1.0, 1e6, -0.0, None], 'large': [1e6 + 1, 0.5, 2, 3], 'small': [1e-7, 1, 2, 3]})",
    "pd.DataFrame({'n': [2**62, -1], 'inf': [float('inf'), 1]}, index=pd.RangeIndex(-5, 5, 5))",
    "pd.DataFrame({' led': [1.25, 2], 'a\\tb': [3, -4]}, index=[' x', 'y\\nz'])",
    "pd.DataFrame({'n': [1.5, 2]}, index=[-1, 10])",
    "pd.DataFrame({'half': np.array([0.1, 2], 'float32'), 'few': np.array([1, 2], 'int8')})",
    "pd.DataFrame({'o': pd.Series([1, 2.5], dtype=object), 'long name': pd.arrays.SparseArray([0, 1], fill_value=1)})",
    "pd.DataFrame({'\\xa0x': [1.5, 2], '\\xa0': [1, 2]}, index=['\\u3000', 'b'])",
    "pd.DataFrame({'n': [1.5]}, index=['\\x0b'])",
    "pd.DataFrame(np.eye(2, 11))",
    "pd.DataFrame([[1, 2]], columns=pd.RangeIndex(-1, 1))",
    "pd.DataFrame({'a': [1.5, 2]}, index=pd.MultiIndex.from_arrays([['a', 'b']]))",
    "pd.DataFrame([[1.5, 2]], columns=pd.MultiIndex.from_arrays([['a', 'b']]))",
    "pd.DataFrame({'i': pd.array([1, None], 'Int64'), 's': pd.array(['a', None], 'string')})",
]
OPTIONS = [
    "display__max_columns=None, display__max_rows=None",
    "display__precision=2",
    "display__max_columns=4, display__max_rows=6",
    "display__width=40",
    "display__expand_frame_repr=False",
    "display__max_colwidth=None",
    "display__max_colwidth=8",
    "display__chop_threshold=2",
    "display__precision=0",
    "display__show_dimensions=True",
    "display__html__border=0, display__colheader_justify='left'",
    "display__multi_sparse=False",
]
OTHERWISE = [
    "display__max_columns=0",
    "display__notebook_repr_html=False",
    "display__large_repr='info', display__max_rows=2",
    "display__float_format='{:.1f}!'.format",
]


@pytest.fixture(scope="module", params=["native", "wasm"])
def tables(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with required():
        sandbox = Sandbox(request.param)
    with sandbox:
        assert sandbox.run(SET_UP).error is None
        yield sandbox


@pytest.mark.parametrize("frame", FRAMES)
def test_text_and_html_are_those_of_pandas(tables: Sandbox, frame: str):
    ran = tables.run(f"shown({frame})")
    assert ran.error is None, ran.error
    assert ran.value is True, "made of the same cells"


@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_kept(tables: Sandbox, options: str):
    ran = tables.run(f"[shown(frame, {options}) for frame in ({', '.join(FRAMES[:6])})]")
    assert ran.error is None, ran.error
    assert ran.value == [True] * 6


@pytest.mark.parametrize("options", OTHERWISE)
def test_other_ways_to_show_are_left_to_pandas(tables: Sandbox, options: str):
    ran = tables.run(f"shown({FRAMES[0]}, {options})")
    assert ran.error is None, ran.error
    assert ran.value is False


def test_a_small_table_is_laid_out_by_the_kernel(tables: Sandbox):
    code = f"""
from belljar_kernel import tables, writers
own, writers.written = writers.written, None
try:
    made = tables.Table({FRAMES[0]}).rendered()
finally:
    writers.written = own
sorted(made)
"""
    assert tables.run(FRAMES[0]).error is None  # once, pandas is asked how it writes
    assert tables.run(code).value == ["text/html", "text/plain"]


@pytest.mark.parametrize(
    "code",
    [
        "pd.DataFrame({'image': [[0] * 2100] * 1000})",
        "pd.DataFrame({'a': [[[1] * 1000] * 300] * 10})",
        "display({'application/json': [0] * 3_000_000}, raw=True)",
    ],
)
def test_what_has_more_parts_than_a_frame_may_have_costs_nothing_but_itself(tables: Sandbox, code: str):
    tables.run("kept = 1")
    ran = tables.run(code)
    assert (ran.status, ran.state) == ("ok", "kept"), ran.error
    assert all(result.data is None for result in ran.results)
    assert tables.run("kept").value == 1


def test_tables_in_tables_share_one_budget(tables: Sandbox):
    inner = "pd.DataFrame({'t': ['x' * 400] * 1000})"
    ran = tables.run(f"pd.DataFrame({{'f': [{inner}] * 100}})")
    assert ran.error is None
    assert ran.value is None
    assert ran.results[0].data is None


def test_whoever_changes_how_tables_are_shown_is_heard(tables: Sandbox):
    change = "pd.DataFrame._repr_html_, own = lambda self: '<i>mine</i>', pd.DataFrame._repr_html_"
    ran = tables.run(f"{change}\n{FRAMES[0]}")
    assert ran.results[-1].html == "<i>mine</i>"
    assert tables.run(f"pd.DataFrame._repr_html_ = own\n{FRAMES[0]}").results[-1].html.startswith("<div>")
    own = f"frame = {FRAMES[0]}\nframe._repr_html_ = lambda: '<i>own</i>'\nframe"
    assert tables.run(f"import warnings\nwarnings.simplefilter('ignore')\n{own}").results[-1].html == "<i>own</i>"
    subclass = "class Mine(pd.DataFrame):\n    def __repr__(self):\n        return 'mine'\nMine({'a': [1]})"
    assert tables.run(subclass).results[-1].text == "mine"


def test_a_cell_that_cannot_be_shown_is_the_codes_error(tables: Sandbox):
    code = "class Cell:\n    def __repr__(self):\n        raise KeyError('no')\n    __str__ = __repr__\npd.DataFrame({'a': [Cell()]})"
    assert tables.run(code).error.name == "KeyError"
    assert tables.run("pd.DataFrame({'a': [1]})").error is None


@pytest.mark.parametrize(
    "change",
    [
        "format.DataFrameRenderer.to_html = lambda *_, **__: 'MINE'",
        "html.HTMLFormatter._write_cell = lambda self, *_, **__: self.write('MINE')",
        "html.NotebookFormatter.write_style = lambda self: self.write('MINE')",
        "string.StringFormatter.to_string = lambda _: 'MINE'",
        "format.FloatArrayFormatter.get_result_as_array = lambda self: np.array(['MINE'] * len(self.values))",
        "format._IntArrayFormatter._format_strings = lambda self: ['MINE'] * len(self.values)",
        "format._trim_zeros_float = lambda texts, *_: ['MINE'] * len(texts)",
        "pd.RangeIndex._format_with_header = lambda self, **_: ['MINE'] * len(self)",
        "printing.pprint_thing = lambda *_, **__: 'MINE'",
        "html.pprint_thing = lambda *_, **__: 'MINE'",
        "printing._TextAdjustment.justify = lambda _, texts, *__, **___: [f'MINE{text}' for text in texts]",
    ],
)
def test_so_is_whoever_changes_what_they_are_written_with(tables: Sandbox, change: str):
    target, _, value = change.partition(" = ")
    code = f"""
from pandas.io.formats import format, html, printing, string
frame = pd.DataFrame({{"a": [1, 2, 3, 4], "b": [1.5, 2, 3, 4]}})
shown(frame)
own = {target}
{target} = {value}
try:
    assert shown(frame)
    assert "MINE" in frame._repr_html_() + repr(frame)
finally:
    {target} = own
assert shown(frame)
"""
    assert tables.run(code).error is None
