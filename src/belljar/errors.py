"""What Belljar failed to do. What the user's code did is data, in an Execution, and raised on request only.

SandboxError
├── InvalidRequest        an argument that cannot be meant: empty code, a limit out of range (also a ValueError)
├── EngineUnavailable     this engine cannot hold its wall on this machine; carries the health report with the fix
├── StartFailed           the engine is fine but this sandbox did not come up
├── SandboxClosed         the sandbox was closed, or its host went away
├── FileError             a file operation that was refused or failed
│   ├── FileMissing       there is no such file (also a FileNotFoundError)
│   ├── PathRefused       the path leaves the workspace, or is not a path (also a ValueError)
│   ├── FileTooLarge      more bytes than may be moved at once
│   └── DiskFull          the workspace is full
├── CheckpointRefused     a checkpoint that was changed, cut off, or made by or for somebody else (also a ValueError)
├── HostBusy              the host, or the sandbox's queue, is full: the same may work later
├── SandboxMissing        there is no sandbox with this id, or it is not yours (also a LookupError)
├── SandboxTaken          the sandbox is live in another process
├── StoreFailed           what should outlive this process could not be written or read
├── PackageError          packages could not be resolved, fetched or verified
└── ExecutionFailed       raised by Execution.raise_for_status() only; carries the execution (in `belljar.execution`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belljar.health import EngineHealth


class SandboxError(Exception):
    """Root of everything Belljar raises."""


class InvalidRequest(SandboxError, ValueError):
    """An argument that cannot be meant."""


class EngineUnavailable(SandboxError):
    """The engine cannot hold its wall on this machine."""

    def __init__(self, message: str, health: EngineHealth | None = None) -> None:
        super().__init__(message)
        self.health = health


class StartFailed(SandboxError):
    """The sandbox did not come up."""


class SandboxClosed(SandboxError):
    """The sandbox was closed."""


class FileError(SandboxError):
    """A file operation that was refused or failed."""


class FileMissing(FileError, FileNotFoundError):
    """There is no such file in the sandbox, or on this machine when one is uploaded."""


class PathRefused(FileError, ValueError):
    """The path leaves the workspace, or is not a path."""


class FileTooLarge(FileError):
    """More bytes than may be moved at once."""


class DiskFull(FileError):
    """The workspace is full."""


class CheckpointRefused(SandboxError, ValueError):
    """The checkpoint was changed, cut off, or made by or for somebody else."""


class HostBusy(SandboxError):
    """The host, or the queue of a sandbox, is full; try again after so many seconds."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SandboxMissing(SandboxError, LookupError):
    """There is no sandbox with this id."""


class SandboxTaken(SandboxError):
    """The sandbox is live in another process."""


class StoreFailed(SandboxError):
    """The store could not be written or read."""


class PackageError(SandboxError):
    """Packages could not be resolved, fetched or verified."""
