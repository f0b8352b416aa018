"""What code imports and what is there for it, without importing anything: for whoever installs packages outside."""

from __future__ import annotations

import ast
import importlib.util
import sys

from belljar_kernel.protocol import MISSING_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from belljar_kernel.interrupts import Interrupts
    from belljar_kernel.surroundings import Surroundings


def needs(surroundings: Surroundings, interrupts: Interrupts, request: dict[str, Any]) -> dict[str, Any]:
    """`missing`: top-level names that the code imports and nobody has. `imported`: those of `names` that are in use."""
    code, names = request.get("code"), request.get("names")
    surroundings.enter(request.get("env") or {}, request.get("cwd"))
    try:
        interrupts.arm()  # finders may be the code's own, and take forever
        missing = [name for name in imported_names(code) if not _is_there(name)] if type(code) is str else []
    finally:
        interrupts.disarm()
        surroundings.leave()
    given = [name for name in names if type(name) is str] if type(names) is list else []
    return {"missing": missing[:MISSING_NAMES], "imported": [name for name in given if name in sys.modules]}


def imported_names(code: str) -> list[str]:
    """The top-level names that code imports, in order; none when it is no Python."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        for name in _named(node):
            found.setdefault(name.partition(".")[0])
    return list(found)


def _named(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return [node.module]
    return ()


def _is_there(name: str) -> bool:
    """Whether an import would find it; when that cannot be told, the import itself shall tell."""
    if name in sys.modules or name in sys.builtin_module_names:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return True
