"""How tables of pandas are shown: as in a notebook, as text and html of the same cells, and as data."""

from __future__ import annotations

from belljar_kernel import cells, grid
from belljar_kernel.genuine import class_attribute, is_exactly, is_kind_of, loaded
from belljar_kernel.value import TABLE_BYTES, first_rows, names_of, records
from belljar_kernel.writers import head_of, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

NOTEBOOK_COLUMNS = 20
_SHOWING = ("__repr__", "_repr_html_", "_info_repr", "to_string")
EDGE = 3  # pandas begins a new line before the last columns
_NUMBERS = ("float64", "int64")
_own: dict[str, object] = {}  # how pandas itself shows a table; others change that


def patch_pandas(pandas: Any) -> None:
    """Show tables as in a notebook: to fit each to a terminal, as pandas does without IPython, takes thrice as long."""
    if pandas.get_option("display.max_columns") == 0:
        pandas.set_option("display.max_columns", NOTEBOOK_COLUMNS)
    _own.update((name, vars(pandas.DataFrame).get(name)) for name in _SHOWING)


class Table:
    """A DataFrame that is shown. Its columns are asked for once, for its text, its html and its data."""

    def __init__(self, frame: Any) -> None:
        self._frame, head = frame, first_rows(frame)
        self._is_whole = head is frame
        columns = [(series.dtype, series.tolist()) for _, series in head.items()]  # by position: names may repeat
        self._dtypes = [dtype for dtype, _ in columns]
        self._kinds = [str.__str__(str(dtype)) for dtype in self._dtypes]
        self._values = [values for _, values in columns]

    def data(self) -> dict[str, Any]:
        """Its shape, columns and first rows.

        Raises:
            NotPlainError: when they are too large.
        """
        rows, columns = self._frame.shape
        names = names_of(self._frame)
        return {
            "shape": [int(rows), int(columns)],
            "columns": names,
            "dtypes": self._kinds,
            "records": records(names, self._values, TABLE_BYTES),
        }

    def rendered(self) -> dict[str, str]:
        """Text and html, whose cells are formatted once for both: that is most of either.

        Nothing when it is not shown in pandas' own way.
        """
        frame = self._frame
        try:
            own = object.__getattribute__(frame, "__dict__")
            if any(name in own or class_attribute(frame, name) is not _own.get(name) for name in _SHOWING):
                return {}
            return self._rendered(loaded("pandas") or {}, loaded("pandas.io.formats.format") or {})
        except Exception:
            return {}  # a pandas that we do not know: it shows itself

    def _rendered(self, pandas: dict[str, Any], formats: dict[str, Any]) -> dict[str, str]:
        option, frame = pandas["get_option"], self._frame
        if frame._info_repr() or not option("display.notebook_repr_html") or option("display.float_format") is not None:
            return {}
        options = formats["get_dataframe_repr_params"]()
        line_width, _ = options.pop("line_width"), options.pop("max_colwidth")  # cells are cut by the option itself
        if options["max_cols"] == 0:
            return {}  # it would be fitted to a terminal
        formatter = formats["DataFrameFormatter"](frame, bold_rows=True, **options)
        made: dict[int, list[str]] = {}
        ask = formatter.format_col
        formatter.format_col = lambda number: list(made.get(number) or made.setdefault(number, ask(number)))
        return self._laid_out(formatter, option, formats, line_width) or written(formatter, formats, line_width)

    def _laid_out(self, formatter: Any, option: Any, formats: dict[str, Any], line_width: int | None) -> dict[str, str]:
        """The same for what most tables are, a few rows and columns with one name each: pandas takes thrice as long."""
        frame = self._frame
        is_plain = self._is_whole and _is_plain(frame, formatter, option)
        head = head_of(type(frame), option, formats) if is_plain else None
        if head is None:
            return {}
        labels, headers = _named(frame.index), _named(frame.columns)
        columns, foreign = self._texts(formatter, option)
        padded = [
            " " + name if kind in _NUMBERS or formats["is_numeric_dtype"](dtype) else name
            for name, kind, dtype in zip(headers, self._kinds, self._dtypes, strict=True)
        ]
        if len({*headers}) < len(headers) or not all(map(_is_simple, (*labels, *headers, *foreign))):
            return {}
        most = option("display.max_colwidth")
        if most is not None and max(map(len, (*labels, *padded, *_joined(columns)))) >= most:
            return {}
        if line_width is not None and grid.width(labels, padded, columns) + EDGE > line_width:
            return {}
        return {
            "text/html": grid.as_html(head, labels, headers, columns),
            "text/plain": grid.as_text(labels, padded, columns),
        }

    def _texts(self, formatter: Any, option: Any) -> tuple[list[list[str]], list[str]]:
        """The cells of each column, and those of them that pandas wrote."""
        digits = option("display.precision") if option("display.chop_threshold") is None else 0
        columns = [cells.numbers(*column, digits) for column in zip(self._kinds, self._values, strict=True)]
        others = {number: formatter.format_col(number) for number, texts in enumerate(columns) if texts is None}
        return [texts or others[number] for number, texts in enumerate(columns)], _joined(others.values())


def table_of(value: object) -> Table | None:
    """A DataFrame to be shown; None when it is something else, or cannot be asked for its columns."""
    try:
        return Table(value) if is_exactly(value, "pandas", "DataFrame") else None
    except Exception:
        return None


def _named(index: Any) -> list[str]:
    """The names of rows or columns of a table that has some."""
    if is_exactly(index, "pandas", "RangeIndex"):
        texts = [str(number) for number in index.tolist()]
        wide = max(map(len, texts))
        return [text.ljust(wide) for text in texts]
    return cells.names(index.tolist()) or index._format_flat(include_name=False)


def _is_plain(frame: Any, formatter: Any, option: Any) -> bool:
    """Whether it is shown whole, and as usual."""
    if frame.empty or formatter.is_truncated or formatter.should_show_dimensions or formatter.justify != "right":
        return False
    if formatter.has_index_names or formatter.has_column_names:
        return False
    if any(is_kind_of(names, "pandas", "MultiIndex") for names in (frame.index, frame.columns)):
        return False
    return not option("display.unicode.east_asian_width")


def _is_simple(text: object) -> bool:
    """Whether every pandas that we know writes it in the same way: spaces in a row are not the same to all of them."""
    return type(text) is str and "  " not in text.strip()


def _joined(columns: Iterable[list[str]]) -> list[str]:
    return [text for texts in columns for text in texts]
