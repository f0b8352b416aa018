"""Keeps builtins and the recursion limit fit for the kernel: what code did to them holds only while code runs."""

from __future__ import annotations

import builtins
import sys
from _operator import is_

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOWEST, _HIGHEST = 1000, 10_000
_table: dict[str, Any] = builtins.__dict__
_originals = dict(_table)
_missing = object()
_getlimit, _setlimit, _settrace, _setprofile = (
    sys.getrecursionlimit,
    sys.setrecursionlimit,
    sys.settrace,
    sys.setprofile,
)
_RecursionError, _all, _map, _is = RecursionError, all, map, is_


class Shield:
    """Up while the kernel works, down while the user's code does."""

    def __init__(self) -> None:
        self._changes: dict[str, Any] = {}
        self._limit = _getlimit()

    def down(self) -> None:
        """Give the code back what it had changed."""
        for name, value in self._changes.items():
            if value is _missing:
                _table.pop(name, None)
            else:
                _table[name] = value
        self._changes = {}
        try:
            _setlimit(self._limit)
        except _RecursionError:
            pass

    def up(self) -> None:
        """Put back what the kernel and the standard library need. Uses no builtin name: they may all be gone."""
        self._limit = _getlimit()
        if self._limit < _LOWEST:
            _setlimit(_LOWEST)
        elif self._limit > _HIGHEST:
            _setlimit(_HIGHEST)
        _settrace(None)
        _setprofile(None)
        if _all(_map(_is, _originals.values(), _table.values())):  # nothing was replaced; what was added comes after
            return
        for name, original in _originals.items():
            value = _table.get(name, _missing)
            if value is not original:
                self._changes[name] = value
                _table[name] = original
