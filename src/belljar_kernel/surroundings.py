"""Where code runs: environment, folder, import path and hooks of `sys`. Set before a run, put back after it."""

from __future__ import annotations

import os
import sys

from belljar_kernel.protocol import WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


_environ = os.environ
_chdir, _makedirs, _join = os.chdir, os.makedirs, os.path.join
_IMPORTS_METADATA = sys.version_info[:2] >= (3, 12)
_PathFinder: Any = sys.modules["_frozen_importlib_external"].PathFinder
_NamespacePath: Any = sys.modules["_frozen_importlib_external"]._NamespacePath
_forget_all = vars(_PathFinder)["invalidate_caches"]
_hooks = {name: getattr(sys, name) for name in ("__excepthook__", "__displayhook__", "__unraisablehook__")}


class Surroundings:
    """Of one kernel. Modules that were imported stay imported: a source that changed since is not read again."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self._path = list(sys.path)
        self._finders = list(sys.meta_path)
        self._configured: list[str] = []
        self._for_run: list[str] = []
        self._before: dict[str, str | None] = {}
        self._lasting = _lasting(workspace)

    def configure(self, env: Mapping[str, str] | None, path: Iterable[str]) -> None:
        """Replace the environment, and the folders in which packages are found before the environment's own."""
        if env is not None:
            _become(env)
        self._repair_path()
        for folder in self._configured:
            _discard(folder)
        python_path = self._split(_environ.get("PYTHONPATH", ""), self.workspace)
        packages = list(path)
        sys.path[0:0] = python_path
        at = next((i for i, folder in enumerate(sys.path) if _has_packages(folder)), len(sys.path))
        sys.path[at:at] = packages
        self._configured = [*python_path, *packages]
        self._lasting -= {*self._configured}
        self._path = list(sys.path)

    def enter(self, env: Mapping[str, str], cwd: str | None) -> None:
        """Make everything as a run expects it.

        Raises:
            OSError: when the folder cannot be made or entered.
        """
        self._restore_hooks()
        os.environ = _environ  # noqa: B003 - takes back the real one from code that replaced it
        self._before = {name: _environ.get(name) for name in env}
        _environ.update(env)
        _apply_timezone(env)
        folder = self._place(cwd or "", self.workspace)
        self._repair_path()
        if self.workspace not in sys.path:
            sys.path.insert(0, self.workspace)
        self._for_run = self._split(env.get("PYTHONPATH", ""), folder)
        if cwd:
            self._for_run.insert(0, folder)
        sys.path[1:1] = self._for_run
        try:
            _chdir(folder)
        except FileNotFoundError:
            _makedirs(folder, exist_ok=True)
            _chdir(folder)
        _forget_folders(self._lasting)

    def leave(self) -> None:
        """Take back what was for this run only, also what the code made of exactly those variables."""
        before, self._before = self._before, {}
        for name, value in before.items():
            if value is None:
                _environ.pop(name, None)
            else:
                _environ[name] = value
        _apply_timezone(before)
        folders, self._for_run = self._for_run, []
        for folder in folders:
            _discard(folder)

    def _split(self, python_path: str, folder: str) -> list[str]:
        return [self._place(entry, folder) for entry in python_path.split(os.pathsep) if entry]

    def _place(self, path: str, folder: str) -> str:
        """A path from outside: by its full name beneath the workspace, wherever that lies, or beneath a folder."""
        if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
            path, folder = path[len(WORKSPACE) + 1 :].lstrip("/"), self.workspace
        return _join(folder, path) if path else folder

    def _repair_path(self) -> None:
        if type(sys.path) is not list:
            sys.path = list(self._path)
        if type(vars(sys).get("meta_path")) is not list:
            sys.meta_path = list(self._finders)
        if type(vars(sys).get("path_importer_cache")) is not dict:
            sys.path_importer_cache = {}

    def _restore_hooks(self) -> None:
        sys.argv = ["main.py"]
        sys.excepthook = _hooks["__excepthook__"]
        sys.displayhook = _hooks["__displayhook__"]
        sys.unraisablehook = _hooks["__unraisablehook__"]


def _lasting(workspace: str) -> frozenset[str]:
    """The folders of the environment that something was imported from: they do not change."""
    found = sys.path_importer_cache.items()
    own = [folder for folder, finder in found if finder is not None and folder.startswith("/")]
    return frozenset(folder for folder in own if not f"{folder}/".startswith(f"{workspace}/"))


def _become(env: Mapping[str, str]) -> None:
    """Make the environment this one. What is as it should be is not written: a fork would copy its pages for it."""
    before = dict(_environ)
    if before == env:
        return
    for name in before.keys() - env.keys():
        del _environ[name]
    _environ.update({name: value for name, value in env.items() if before.get(name) != value})
    _apply_timezone({*before, *env})


def _has_packages(folder: object) -> bool:
    return isinstance(folder, str) and folder.rstrip("/").endswith(("site-packages", "dist-packages"))


def _discard(folder: str) -> None:
    if type(sys.path) is list and folder in sys.path:
        sys.path.remove(folder)


def _forget_folders(lasting: frozenset[str]) -> None:
    """importlib.invalidate_caches(), without the module that it imports from Python 3.12 on, which takes 20 ms.

    What the code has put in its way is passed over: it is not this run's fault.
    """
    for finder in list(sys.meta_path):
        try:
            if finder is _PathFinder and vars(finder).get("invalidate_caches") is _forget_all:
                _forget_found(lasting)
            elif hasattr(finder, "invalidate_caches"):
                finder.invalidate_caches()
        except Exception:
            continue


def _forget_found(lasting: frozenset[str]) -> None:
    if not _IMPORTS_METADATA:
        _PathFinder.invalidate_caches()
        return
    for folder, finder in list(sys.path_importer_cache.items()):
        if folder in lasting:
            continue
        if finder is None or not folder.startswith("/"):
            del sys.path_importer_cache[folder]
        elif hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()
    _NamespacePath._epoch += 1
    if (metadata := sys.modules.get("importlib.metadata")) is not None:
        metadata.MetadataPathFinder.invalidate_caches()


def _apply_timezone(env: Iterable[str]) -> None:
    if "TZ" in env:
        import time

        if hasattr(time, "tzset"):
            time.tzset()
