"""The texts of plain numbers and names, as pandas writes them in a table; for all else it is asked itself."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LARGEST = 1e6  # from here on pandas may write powers of ten
_FLOAT, _INT, _STR = {float}, {int}, {str}


def numbers(dtype: str, values: Sequence[Any], digits: int) -> list[str] | None:
    """The cells of a column, without what pads them; None when it is not one of plain numbers."""
    kinds = {*map(type, values)}
    if dtype == "int64" and kinds == _INT:
        return [f"{value: d}" for value in values]
    if dtype == "float64" and kinds == _FLOAT and digits > 0:
        return _floats(values, digits)
    return None


def names(values: Sequence[Any]) -> list[str] | None:
    """The names of rows or columns that are texts; None when one of them would not be written as it is."""
    if {*map(type, values)} != _STR:
        return None
    return None if any(_is_changed(value) for value in values) else list(values)


def _floats(values: Sequence[float], digits: int) -> list[str] | None:
    """All to the same number of digits: as few as show each of them, at least one."""
    smallest = 10 ** (-digits)
    if any(value and not smallest <= abs(value) <= LARGEST for value in values if value == value):
        return None
    texts = [f"{value: .{digits}f}" if value == value else "" for value in values]
    zeros = min([len(text) - len(text.rstrip("0")) for text in texts if text], default=0)
    end = -min(zeros, digits - 1) or None
    return [text[:end] or "NaN" for text in texts]


def _is_changed(name: str) -> bool:
    return name[:1].isspace() or "\n" in name or "\t" in name or "\r" in name
