"""Belljar runs any Python under glass. Names are imported when they are first used, so that starting stays fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belljar.async_sandbox import AsyncSandbox
    from belljar.errors import (
        CheckpointRefused,
        DiskFull,
        EngineUnavailable,
        FileError,
        FileMissing,
        FileTooLarge,
        HostBusy,
        InvalidRequest,
        PackageError,
        PathRefused,
        SandboxClosed,
        SandboxError,
        SandboxMissing,
        SandboxTaken,
        StartFailed,
        StoreFailed,
    )
    from belljar.events import Call, Event, Output, Shown
    from belljar.execution import Execution, ExecutionFailed, Result
    from belljar.limits import Limits
    from belljar.policy import Policy
    from belljar.sandbox import Sandbox
    from belljar.state.checkpoint import Checkpoint, CheckpointReport

__version__ = "0.1.0"

__all__ = [
    "AsyncSandbox",
    "Call",
    "Checkpoint",
    "CheckpointRefused",
    "CheckpointReport",
    "DiskFull",
    "EngineUnavailable",
    "Event",
    "Execution",
    "ExecutionFailed",
    "FileError",
    "FileMissing",
    "FileTooLarge",
    "HostBusy",
    "InvalidRequest",
    "Limits",
    "Output",
    "PackageError",
    "PathRefused",
    "Policy",
    "Result",
    "Sandbox",
    "SandboxClosed",
    "SandboxError",
    "SandboxMissing",
    "SandboxTaken",
    "Shown",
    "StartFailed",
    "StoreFailed",
    "__version__",
]
_HOMES = {
    "Sandbox": "sandbox",
    "AsyncSandbox": "async_sandbox",
    "Call": "events",
    "Event": "events",
    "Output": "events",
    "Shown": "events",
    "Limits": "limits",
    "Policy": "policy",
    "Execution": "execution",
    "ExecutionFailed": "execution",
    "Result": "execution",
    "Checkpoint": "state.checkpoint",
    "CheckpointReport": "state.checkpoint",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'belljar' has no attribute {name!r}")
    return getattr(import_module(f"belljar.{_HOMES.get(name, 'errors')}"), name)
