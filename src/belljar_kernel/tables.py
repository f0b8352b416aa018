"""How tables of pandas are shown: as in a notebook, as text and html of the same cells, and as data."""

from __future__ import annotations

import functools

from belljar_kernel import grid
from belljar_kernel.genuine import class_attribute, is_exactly, loaded, loaded_class
from belljar_kernel.value import records_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TABLE = "application/vnd.belljar.table+json"
NOTEBOOK_COLUMNS = 20
_SHOWING = ("__repr__", "_repr_html_", "_info_repr", "to_string")
EDGE = 3  # pandas begins a new line before the last columns
_WRITERS = (
    ("html", "HTMLFormatter"),
    ("html", "NotebookFormatter"),
    ("string", "StringFormatter"),
    ("format", "DataFrameRenderer"),
    ("printing", "_TextAdjustment"),
)
_heads: dict[tuple[object, object], str | None] = {}
_writers: dict[tuple[object, object], list[object]] = {}
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
    return _laid_out(frame, formatter, option, formats, line_width) or _written(formatter, formats, line_width)


def _written(formatter: Any, formats: dict[str, Any], line_width: int | None) -> dict[str, str]:
    renderer = formats["DataFrameRenderer"](formatter)
    html = renderer.to_html(notebook=True)
    return {"text/html": html, "text/plain": renderer.to_string(line_width=line_width)}


def _laid_out(
    frame: Any, formatter: Any, option: Any, formats: dict[str, Any], line_width: int | None
) -> dict[str, str]:
    """The same for what most tables are, a few rows and columns with one name each: pandas writes thrice as long."""
    index, names = frame.index, frame.columns
    if frame.empty or formatter.is_truncated or formatter.should_show_dimensions or formatter.justify != "right":
        return {}
    if index.nlevels > 1 or names.nlevels > 1 or formatter.has_index_names or formatter.has_column_names:
        return {}
    if option("display.unicode.east_asian_width"):
        return {}
    labels, headers = index._format_flat(include_name=False), names._format_flat(include_name=False)
    is_number = formats["is_numeric_dtype"]
    padded = [" " + name if is_number(dtype) else name for name, dtype in zip(headers, frame.dtypes, strict=True)]
    columns = [formatter.format_col(number) for number in range(len(headers))]
    most = option("display.max_colwidth")
    for texts in (labels, headers, padded, *columns):
        if not all(_is_simple(text, most) for text in texts):
            return {}
    if len(set(headers)) < len(headers):
        return {}
    if line_width is not None and grid.width(labels, padded, columns) + EDGE > line_width:
        return {}
    head = _head(type(frame), option("display.html.border"), option("display.html.use_mathjax"), formats)
    if head is None:
        return {}
    return {
        "text/html": grid.as_html(head, labels, headers, columns),
        "text/plain": grid.as_text(labels, padded, columns),
    }


def _is_simple(text: object, most: int | None) -> bool:
    """Whether every pandas that we know writes it in the same way: spaces in a row are not the same to all of them."""
    return type(text) is str and (most is None or len(text) < most) and "  " not in text.strip()


def _head(kind: Any, border: object, use_mathjax: object, formats: dict[str, Any]) -> str | None:
    """What html begins with before the names of columns, in the words of this pandas.

    None when it does not write as we do, or no longer as it did when we looked.
    """
    key = border, use_mathjax
    if key not in _heads:
        frame = kind({"x": [0]})
        written = _written(formats["DataFrameFormatter"](frame, bold_rows=True), formats, None)
        head = written["text/html"].partition("      <th>x</th>")[0]
        ours = {
            "text/html": grid.as_html(head, ["0"], ["x"], [["0"]]),
            "text/plain": grid.as_text(["0"], [" x"], [[" 0"]]),
        }
        _heads[key] = head if ours == written else None
        _writers[key] = _parts()
    before, now = _writers[key], _parts()
    same = len(before) == len(now) and all(part is other for part, other in zip(before, now, strict=True))
    return _heads[key] if same else None


def _parts() -> list[object]:
    """All that pandas writes tables with; somebody may have changed it."""
    kinds = [loaded_class(f"pandas.io.formats.{module}", name) for module, name in _WRITERS]
    return [part for kind in kinds if kind is not None for part in vars(kind).values()]
