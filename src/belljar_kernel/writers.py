"""How the pandas that is loaded writes tables, tried once: whether it is as we lay them out, and nobody changed it."""

from __future__ import annotations

from _operator import is_

from belljar_kernel import cells, grid
from belljar_kernel.genuine import loaded, loaded_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WRITERS = (
    ("io.formats.html", "HTMLFormatter"),
    ("io.formats.html", "NotebookFormatter"),
    ("io.formats.string", "StringFormatter"),
    ("io.formats.format", "DataFrameFormatter"),
    ("io.formats.format", "DataFrameRenderer"),
    ("io.formats.format", "FloatArrayFormatter"),
    ("io.formats.format", "_IntArrayFormatter"),
    ("io.formats.format", "_GenericArrayFormatter"),
    ("io.formats.printing", "_TextAdjustment"),
)
_FUNCTIONS = (
    ("io.formats.format", "format_array"),
    ("io.formats.format", "_make_fixed_width"),
    ("io.formats.format", "_trim_zeros_float"),
    ("io.formats.html", "pprint_thing"),
    ("io.formats.printing", "pprint_thing"),
)
_NAMES = ("_format_flat", "_format_with_header", "tolist")
_SAMPLE = {"x": [1, -20], "y": [1.5, float("nan")], "z": [0.25, -100.0]}
DIGITS = 6
_USUAL = ("display.precision", DIGITS, "display.chop_threshold", None, "display.max_colwidth", 50)
_heads: dict[tuple[object, object], str | None] = {}
_writers: dict[tuple[object, object], list[object]] = {}


def written(formatter: Any, formats: dict[str, Any], line_width: int | None) -> dict[str, str]:
    """Text and html by pandas itself."""
    renderer = formats["DataFrameRenderer"](formatter)
    html = renderer.to_html(notebook=True)
    return {"text/html": html, "text/plain": renderer.to_string(line_width=line_width)}


def head_of(kind: Any, option: Any, formats: dict[str, Any]) -> str | None:
    """What html begins with before the names of columns, in the words of this pandas.

    None when it does not write as we do, or no longer as it did when we looked.
    """
    key = option("display.html.border"), option("display.html.use_mathjax")
    if key not in _heads:
        with (loaded("pandas") or {})["option_context"](*_USUAL):
            _heads[key] = _tried(kind(_SAMPLE, index=["a", "bc"]), formats)
        _writers[key] = _in_use()  # pandas imports some of it when it is needed
    before, now = _writers[key], _in_use()
    return _heads[key] if len(before) == len(now) and all(map(is_, before, now)) else None


def _tried(frame: Any, formats: dict[str, Any]) -> str | None:
    """The head of a table that we lay out as this pandas does, cell by cell; None when we do not."""
    theirs = written(formats["DataFrameFormatter"](frame, bold_rows=True), formats, None)
    head = theirs["text/html"].partition("      <th>x</th>")[0]
    labels, headers = cells.names(frame.index.tolist()) or [], cells.names(frame.columns.tolist()) or []
    columns = [cells.numbers(str(series.dtype), series.tolist(), DIGITS) or [] for _, series in frame.items()]
    ours = {
        "text/html": grid.as_html(head, labels, headers, columns),
        "text/plain": grid.as_text(labels, [" " + name for name in headers], columns),
    }
    return head if ours == theirs else None


def _in_use() -> list[object]:
    """All that pandas writes tables with; somebody may have changed it."""
    parts: list[object] = [(loaded(f"pandas.{module}") or {}).get(name) for module, name in _FUNCTIONS]
    for module, name in _WRITERS:
        parts += vars(loaded_class(f"pandas.{module}", name) or object).values()
    for kind in ("Index", "RangeIndex"):
        found = loaded_class("pandas", kind)
        parts += [vars(found or object).get(name) for name in _NAMES]
    return parts
