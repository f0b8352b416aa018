"""How tables of pandas are shown: as in a notebook, as text and html of the same cells, and as data."""

from __future__ import annotations

import functools

from belljar_kernel.genuine import class_attribute, is_exactly, loaded
from belljar_kernel.value import records_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TABLE = "application/vnd.belljar.table+json"
NOTEBOOK_COLUMNS = 20
_SHOWING = ("__repr__", "_repr_html_", "_info_repr", "to_string")
_own: dict[str, object] = {}  # how pandas itself shows a table; others change that


def patch_pandas(pandas: Any) -> None:
    """Show tables as in a notebook: to fit each to a terminal, as pandas does without IPython, takes thrice as long."""
    if pandas.get_option("display.max_columns") == 0:
        pandas.set_option("display.max_columns", NOTEBOOK_COLUMNS)
    _own.update((name, vars(pandas.DataFrame).get(name)) for name in _SHOWING)


def data_of(frame: Any) -> dict[str, Any]:
    """A DataFrame as data: its shape, columns and first rows."""
    rows, columns = frame.shape
    return {
        "shape": [int(rows), int(columns)],
        "columns": [str(name) for name in frame.columns],
        "dtypes": [str(dtype) for dtype in frame.dtypes],
        "records": records_of(frame),
    }


def rendered(frame: Any) -> dict[str, str]:
    """Text and html of a DataFrame, whose cells are formatted once for both: that is most of either.

    Nothing when it is something else, or is not shown in pandas' own way.
    """
    if not is_exactly(frame, "pandas", "DataFrame"):
        return {}
    try:
        own = object.__getattribute__(frame, "__dict__")
        if any(name in own or class_attribute(frame, name) is not _own.get(name) for name in _SHOWING):
            return {}
        return _rendered(frame, loaded("pandas") or {}, loaded("pandas.io.formats.format") or {})
    except Exception:
        return {}  # a pandas that we do not know: it shows itself


def _rendered(frame: Any, pandas: dict[str, Any], formats: dict[str, Any]) -> dict[str, str]:
    option = pandas["get_option"]
    if frame._info_repr() or not option("display.notebook_repr_html") or option("display.float_format") is not None:
        return {}
    options = formats["get_dataframe_repr_params"]()
    line_width, _ = options.pop("line_width"), options.pop("max_colwidth")  # cells are cut by the option itself
    if options["max_cols"] == 0:
        return {}  # it would be fitted to a terminal
    formatter = formats["DataFrameFormatter"](frame, bold_rows=True, **options)
    cells = functools.cache(formatter.format_col)
    formatter.format_col = lambda number: list(cells(number))
    renderer = formats["DataFrameRenderer"](formatter)
    html = renderer.to_html(notebook=True)
    return {"text/html": html, "text/plain": renderer.to_string(line_width=line_width)}
