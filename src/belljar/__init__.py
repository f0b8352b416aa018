"""Belljar runs any Python under glass. Names are imported when they are first used, so that starting stays fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belljar.errors import (
        DiskFull as DiskFull,
    )
    from belljar.errors import (
        EngineUnavailable as EngineUnavailable,
    )
    from belljar.errors import (
        ExecutionFailed as ExecutionFailed,
    )
    from belljar.errors import (
        InvalidRequest as InvalidRequest,
    )
    from belljar.errors import (
        SandboxClosed as SandboxClosed,
    )
    from belljar.errors import (
        SandboxError as SandboxError,
    )
    from belljar.execution import Execution as Execution
    from belljar.execution import Result as Result
    from belljar.limits import Limits as Limits
    from belljar.policy import Policy as Policy
    from belljar.sandbox import AsyncSandbox as AsyncSandbox
    from belljar.sandbox import Sandbox as Sandbox

__version__ = "0.1.0"

_HOMES = {
    "Sandbox": "sandbox",
    "AsyncSandbox": "sandbox",
    "Limits": "limits",
    "Policy": "policy",
    "Execution": "execution",
    "Result": "execution",
    **dict.fromkeys(
        (
            "SandboxError", "InvalidRequest", "EngineUnavailable", "StartFailed", "SandboxClosed", "SandboxNotFound",
            "FileError", "FileMissing", "PathRefused", "FileTooLarge", "DiskFull", "PackageError", "ExecutionFailed",
        ),  # fmt: skip
        "errors",
    ),
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'belljar' has no attribute {name!r}")
    return getattr(import_module(f"belljar.{_HOMES[name]}"), name)
