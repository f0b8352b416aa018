"""Cases: pandas objects arrive as text, as html and as records with their shape."""

from __future__ import annotations

from typing import Any

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import Expected, html_table, ok, result
from belljar.execution import Result

PANDAS = "import pandas as pd\n"


def table(
    text: str,
    html: str | None,
    columns: list[Any],
    dtypes: list[str],
    records: list[Any],
    shape: list[int],
    main: bool = True,
) -> Result:
    """A result that is a table."""
    data = {"shape": shape, "columns": columns, "dtypes": dtypes, "records": records}
    return result(text, main=main, html=html, data=data)


def shown(text: str, html: str | None, columns: list[Any], dtypes: list[str], records: list[Any]) -> Expected:
    """A run whose only result is this table, whole, which is its value too."""
    return ok(results=[table(text, html, columns, dtypes, records, [len(records), len(columns)])], value=records)


CASES: list[Case] = [
    case(
        "a DataFrame is text, html, and records with shape and dtypes",
        run(
            PANDAS + "pd.DataFrame({'x': [1, 2], 'y': [0.5, 1.5]})",
            shown(
                "   x    y\n0  1  0.5\n1  2  1.5",
                html_table(["", "x", "y"], [["0", "1", "0.5"], ["1", "2", "1.5"]]),
                ["x", "y"],
                ["int64", "float64"],
                [{"x": 1, "y": 0.5}, {"x": 2, "y": 1.5}],
            ),
        ),
    ),
    case(
        "missing numbers are null in records",
        run(
            PANDAS + "pd.DataFrame({'x': [1.0, None]})",
            shown(
                "     x\n0  1.0\n1  NaN",
                html_table(["", "x"], [["0", "1.0"], ["1", "NaN"]]),
                ["x"],
                ["float64"],
                [{"x": 1.0}, {"x": None}],
            ),
        ),
    ),
    case(
        "a DataFrame of text",
        run(
            PANDAS + "pd.DataFrame({'name': ['Ada', 'Alan'], 'ok': [True, False]})",
            shown(
                "   name     ok\n0   Ada   True\n1  Alan  False",
                html_table(["", "name", "ok"], [["0", "Ada", "True"], ["1", "Alan", "False"]]),
                ["name", "ok"],
                ["str", "bool"],
                [{"name": "Ada", "ok": True}, {"name": "Alan", "ok": False}],
            ),
        ),
    ),
    case(
        "a wide DataFrame is wrapped, not cut, as in a notebook",
        run(
            PANDAS + "print(pd.DataFrame([range(9)], columns=[f'column_{k}' for k in range(9)]))",
            ok(
                "   column_0  column_1  column_2  column_3  column_4  column_5  column_6  \\\n"
                "0         0         1         2         3         4         5         6   \n\n"
                "   column_7  column_8  \n0         7         8  \n"
            ),
        ),
    ),
    case(
        "of many columns 20 are shown, and all are in the records",
        run(
            PANDAS + "frame = pd.DataFrame([range(25)])\n"
            "shown = frame._repr_html_(), frame.to_dict('records')\n"
            "shown[0].count('<td>'), '...' in shown[0], len(shown[1][0])",
            ok(text="(21, True, 25)", value=[21, True, 25]),
        ),
    ),
    case(
        "a DataFrame with markup in it is escaped in html",
        run(
            PANDAS + "pd.DataFrame({'x': ['<b>&']})",
            shown(
                "      x\n0  <b>&", html_table(["", "x"], [["0", "&lt;b&gt;&amp;"]]), ["x"], ["str"], [{"x": "<b>&"}]
            ),
        ),
    ),
    case(
        "a DataFrame without rows is a table too",
        run(
            PANDAS + "pd.DataFrame({'x': pd.Series([], dtype='int64')})",
            shown("Empty DataFrame\nColumns: [x]\nIndex: []", html_table(["", "x"], []), ["x"], ["int64"], []),
        ),
    ),
    case(
        "a column whose name is a number is named by text in records",
        run(
            PANDAS + "pd.DataFrame([[1, 2]])",
            shown(
                "   0  1\n0  1  2",
                html_table(["", "0", "1"], [["0", "1", "2"]]),
                ["0", "1"],
                ["int64", "int64"],
                [{"0": 1, "1": 2}],
            ),
        ),
    ),
    case(
        "a date in a table is text in records",
        run(
            PANDAS + "pd.DataFrame({'d': pd.to_datetime(['2024-02-29'])}).astype('datetime64[ns]')",
            shown(
                "           d\n0 2024-02-29",
                html_table(["", "d"], [["0", "2024-02-29"]]),
                ["d"],
                ["datetime64[ns]"],
                [{"d": "2024-02-29 00:00:00"}],
            ),
        ),
    ),
    case(
        "a Series is a table of one column with its name",
        run(
            PANDAS + "pd.Series([1, 2], name='n')",
            ok(
                results=[
                    table("0    1\n1    2\nName: n, dtype: int64", None, ["n"], ["int64"], [{"n": 1}, {"n": 2}], [2, 1])
                ],
                value=[1, 2],
            ),
        ),
    ),
    case(
        "a Series without a name is a column called value",
        run(
            PANDAS + "pd.Series([0.5, None])",
            ok(
                results=[
                    table(
                        "0    0.5\n1    NaN\ndtype: float64",
                        None,
                        ["value"],
                        ["float64"],
                        [{"value": 0.5}, {"value": None}],
                        [2, 1],
                    )
                ],
                value=[0.5, None],
            ),
        ),
    ),
    case(
        "a DataFrame with columns in two levels",
        run(
            PANDAS + "pd.DataFrame({('a', 'x'): [1], ('a', 'y'): [2]})",
            shown(
                "   a   \n   x  y\n0  1  2",
                "<div><table><thead><tr><th></th><th>a</th></tr><tr><th></th><th>x</th><th>y</th></tr></thead>"
                "<tbody><tr><th>0</th><td>1</td><td>2</td></tr></tbody></table></div>",
                ["('a', 'x')", "('a', 'y')"],
                ["int64", "int64"],
                [{"('a', 'x')": 1, "('a', 'y')": 2}],
            ),
        ),
    ),
    case(
        "a DataFrame without columns is a table too",
        run(
            PANDAS + "pd.DataFrame()",
            shown(
                "Empty DataFrame\nColumns: []\nIndex: []",
                "<div><table><thead><tr><th></th></tr></thead><tbody></tbody></table></div>",
                [],
                [],
                [],
            ),
        ),
    ),
    case(
        "a DataFrame whose column appears twice keeps its text, html and shape",
        run(PANDAS + "pd.DataFrame([[1, 2]], columns=['a', 'a']).shape", ok(text="(1, 2)", value=[1, 2])),
    ),
    case(
        "a displayed DataFrame is not the main result",
        run(
            PANDAS + "display(pd.DataFrame({'x': [1]}))",
            ok(
                results=[
                    table(
                        "   x\n0  1",
                        html_table(["", "x"], [["0", "1"]]),
                        ["x"],
                        ["int64"],
                        [{"x": 1}],
                        [1, 1],
                        main=False,
                    )
                ]
            ),
        ),
    ),
    case(
        "the shape of a long DataFrame is whole when its records are capped",
        run(
            PANDAS + "import json\nd = pd.DataFrame({'x': range(5000)})\nd.shape",
            ok(text="(5000, 1)", value=[5000, 1]),
        ),
    ),
    case(
        "a printed DataFrame is only output",
        run(
            PANDAS + "print(pd.DataFrame({'x': [1]}))",
            ok("   x\n0  1\n"),
        ),
    ),
    case(
        "a pandas number is its plain value",
        run(
            PANDAS + "pd.DataFrame({'x': [1, 2, 3]})['x'].sum()",
            ok(text="np.int64(6)", value=6),
        ),
    ),
    case(
        "describe gives the eight rows",
        run(
            PANDAS + "pd.DataFrame({'x': [1, 2, 3]}).describe()['x'].round(3).tolist()",
            ok(text="[3.0, 2.0, 1.0, 1.0, 1.5, 2.0, 2.5, 3.0]", value=[3.0, 2.0, 1.0, 1.0, 1.5, 2.0, 2.5, 3.0]),
        ),
    ),
    case(
        "a group-by over two runs",
        run(
            PANDAS + "d = pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]})",
            ok(),
        ),
        run("d.groupby('k')['v'].sum().to_dict()", ok(text="{'a': 4, 'b': 2}", value={"a": 4, "b": 2})),
    ),
]
CASES = [Case(each.name, each.steps, each.tags, ("pandas",), each.limits) for each in CASES]
