"""The last expression as plain JSON data, faithful or not at all. Takes exact types only, so that no user code runs."""

from __future__ import annotations

import collections
import math

from belljar_kernel import codec
from belljar_kernel.genuine import is_exactly, is_kind_of
from belljar_kernel.protocol import VALUE_BYTES
from belljar_kernel.slots import class_module, is_exact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TABLE_BYTES = 2_000_000
DOCUMENT_BYTES = 32 << 20  # of one format of a result
DEPTH = 50
ROWS = 1000
_CELLS = 200_000
_INT_BITS = 13_287  # 4,000 digits
_FLOAT, _isfinite = {float}, math.isfinite
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)


class NotPlainError(Exception):
    """The object has no faithful form as JSON."""


def value_of(result: object, records: list[dict[str, Any]] | None = None) -> Any:
    """The object as JSON data, or None when it has no such form or one that is too large.

    `records` are those of a table that has been shown: they are made once.
    """
    try:
        value = _Converter().convert(result) if records is None else records
        return value if len(codec.encode(value)) <= VALUE_BYTES else None
    except Exception:
        return None


def plain(document: object, budget: int) -> Any:
    """A document that a library made for JSON, checked and copied.

    Raises:
        NotPlainError: when it is not JSON data, or has more than `budget` parts and characters.
    """
    return _Converter(budget).convert(document)


def names_of(frame: Any) -> list[str]:
    """The names of a DataFrame's columns, as exact strings."""
    return [str.__str__(str(name)) for name in frame.columns]


def first_rows(frame: Any) -> Any:
    """As many rows as are given as data."""
    rows, columns = frame.shape
    most = min(ROWS, max(1, _CELLS // max(columns, 1)))
    return frame if rows <= most else frame.iloc[:most]


def records(names: list[str], columns: list[list[Any]], budget: int) -> list[dict[str, Any]]:
    """The rows of a table, each with the names of its columns.

    Raises:
        NotPlainError: when they have more than `budget` parts and characters.
    """
    return _Converter(budget).records(names, columns)


class _Converter:
    def __init__(self, budget: int = VALUE_BYTES) -> None:
        self._budget = budget

    def convert(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        self._budget -= 2
        if self._budget < 0 or depth > DEPTH:
            raise NotPlainError
        if value is None or kind is bool:
            return value
        if kind is str:
            self._budget -= len(value)
            return value
        if kind is int:
            if value.bit_length() > _INT_BITS:
                raise NotPlainError
            return value
        if kind is float:
            return value if math.isfinite(value) else None
        if kind is list or kind is tuple:
            return [self.convert(item, depth + 1) for item in value]
        if is_exact(value, *_MAPPINGS):
            return self._mapping(value, depth)
        return self._foreign(value, depth)

    def records(self, names: list[str], columns: list[list[Any]]) -> list[dict[str, Any]]:
        """The rows of a table. A cell that has no plain form is its text when it is a time, else null."""
        letters = sum(map(len, names))
        if letters * len(columns[0] if columns else ()) > DOCUMENT_BYTES:
            raise NotPlainError
        self._spend(letters)
        cells = [self.column(values) for values in columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def column(self, values: list[Any]) -> list[Any]:
        """The cells of a column of a table."""
        if {*map(type, values)} != _FLOAT:
            return [self.cell(value) for value in values]
        self._spend(2 * len(values))
        return [value if _isfinite(value) else None for value in values]

    def cell(self, value: object) -> Any:
        """A cell of a table: never a reason to give the table up."""
        if not is_exact(value, float, int, str) and _is_missing(value):
            return None
        try:
            return self.convert(value, DEPTH - 5)
        except NotPlainError:
            if self._budget < 0:
                raise
        if not _is_time(value):
            return None
        text = str(value)
        self._spend(len(text))
        return text

    def _spend(self, parts: int) -> None:
        self._budget -= parts
        if self._budget < 0:
            raise NotPlainError

    def _mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        return {self._key(key): self.convert(item, depth + 1) for key, item in dict.items(value)}

    def _key(self, key: Any) -> str:
        kind = type(key)
        if kind is str:
            self._budget -= len(key)
            return str(key)
        if key is None or kind is bool:
            return {None: "null", True: "true", False: "false"}[key]
        if kind is int and key.bit_length() <= _INT_BITS:
            return int.__repr__(key)
        if kind is float and math.isfinite(key):
            return float.__repr__(key)
        if is_kind_of(key, "numpy", "generic") and _is_numpy(key):
            return self._key(key.item())
        raise NotPlainError

    def _foreign(self, value: Any, depth: int) -> Any:
        if _is_missing(value):
            return None
        if is_kind_of(value, "numpy", "generic") and _is_numpy(value):
            item = value.item()
            if type(item) is type(value):
                raise NotPlainError
            return self.convert(item, depth + 1)
        if is_exactly(value, "numpy", "ndarray"):
            if value.size > _CELLS:
                raise NotPlainError
            return self.convert(value.tolist(), depth)
        if is_exactly(value, "pandas", "DataFrame"):
            head = first_rows(value)
            return self.records(names_of(value), [series.tolist() for _, series in head.items()])
        if is_exactly(value, "pandas", "Series", "Index", "RangeIndex", "DatetimeIndex"):
            if len(value) > _CELLS:
                raise NotPlainError
            return self.column(value.tolist())
        raise NotPlainError


def _is_missing(value: object) -> bool:
    return is_exactly(value, "pandas._libs.missing", "NAType") or is_exactly(
        value, "pandas._libs.tslibs.nattype", "NaTType"
    )


def _is_time(value: object) -> bool:
    return (
        is_exactly(value, "pandas", "Timestamp", "Timedelta", "Period", "Interval")
        or is_exactly(value, "datetime", "datetime", "date", "time", "timedelta")
        or is_exactly(value, "decimal", "Decimal")
    )


def _is_numpy(value: object) -> bool:
    module = class_module(type(value))
    return type(module) is str and module == "numpy"
