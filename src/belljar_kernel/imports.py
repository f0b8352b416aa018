"""Calls a function as soon as the code has imported a module, once. Imports nothing itself."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class ImportWatch:
    """A finder that finds nothing, but notices."""

    def __init__(self, actions: dict[str, Callable[[Any], None]]) -> None:
        self._actions = actions
        self._done: set[str] = set()

    def add(self, actions: dict[str, Callable[[Any], None]]) -> None:
        """Watch for more."""
        self._actions = {**self._actions, **actions}

    def install(self) -> None:
        """Watch first, and act for what is loaded already."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name in self._actions:
            if name not in self._done and name in sys.modules:
                self._act(name, sys.modules[name])

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The real spec of a watched module, with a loader that tells when it is done."""
        if name not in self._actions or name in self._done:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self._follow(name, spec.loader)
                return spec
        return None

    def _follow(self, name: str, loader: Any) -> None:
        original = getattr(loader, "exec_module", None)
        if original is None:
            return

        def exec_module(module: ModuleType) -> None:
            original(module)
            self._act(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader that cannot be followed: the next run will act

    def _act(self, name: str, module: Any) -> None:
        self._done.add(name)
        try:
            self._actions[name](module)
        except Exception:
            pass  # a module of the same name that is not what we took it for
