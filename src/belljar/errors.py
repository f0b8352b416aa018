"""What Belljar failed to do. What the user's code did is data, in an Execution, and raised on request only.

SandboxError
├── InvalidRequest        an argument that is invalid: empty code, a limit out of range (also a ValueError)
├── EngineUnavailable     this engine cannot hold its wall on this machine; carries the health report with the fix
├── StartFailed           the engine is fine but this sandbox did not come up
├── SandboxClosed         the sandbox was closed, or its host went away
├── FileError             a file operation that was refused or failed
│   ├── FileMissing       there is no such file (also a FileNotFoundError)
│   ├── PathRefused       the path leaves the workspace, or is not a path (also a ValueError)
│   ├── FileTooLarge      more bytes than may be moved at once
│   └── DiskFull          the workspace is full
├── CheckpointRefused     a checkpoint that was changed, cut off, or made by or for another owner (also a ValueError)
├── HostBusy              the host, or the sandbox's queue, is full: the same may work later
├── SandboxMissing        there is no sandbox with this id, or it is not yours (also a LookupError)
├── SandboxTaken          the sandbox is live in another process
├── StoreFailed           what should outlive this process could not be written or read
├── PackageError          packages could not be resolved, fetched or verified
└── ExecutionFailed       raised by Execution.raise_for_status() only; carries the execution (in `belljar.execution`)

Every class has a `code`, which never changes, the `status` that a server answers with, and whether it is `retryable`:
whether trying again later may do without changing anything. Classes within a layer have those of their parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from belljar.health import EngineHealth


class SandboxError(Exception):
    """Root of everything Belljar raises."""

    code: str = "sandbox_error"
    status: int = 500
    retryable: bool = False
    details: ClassVar[tuple[str, ...]] = ()  # attributes that go with the text wherever the error goes


class InvalidRequest(SandboxError, ValueError):
    """An argument is invalid: of the wrong type, out of range or contradictory. Nothing was run."""

    code = "invalid_request"
    status = 400


class EngineUnavailable(SandboxError):
    """The engine cannot hold its wall on this machine."""

    code = "engine_unavailable"
    status = 501
    details = ("health",)

    def __init__(self, message: str, health: EngineHealth | None = None) -> None:
        super().__init__(message)
        self.health = health


class StartFailed(SandboxError):
    """The sandbox did not come up."""

    code = "start_failed"
    status = 503
    retryable = True


class SandboxClosed(SandboxError):
    """The sandbox was closed."""

    code = "sandbox_closed"
    status = 410


class FileError(SandboxError):
    """A file operation that was refused or failed."""

    code = "file_error"
    status = 422


class FileMissing(FileError, FileNotFoundError):
    """There is no such file in the sandbox, or on this machine when one is uploaded."""

    code = "file_missing"
    status = 404


class PathRefused(FileError, ValueError):
    """The path leaves the workspace, or is not a path."""

    code = "path_refused"
    status = 400


class FileTooLarge(FileError):
    """More bytes than may be moved at once."""

    code = "file_too_large"
    status = 413


class DiskFull(FileError):
    """The workspace is full."""

    code = "disk_full"
    status = 507


class CheckpointRefused(SandboxError, ValueError):
    """The checkpoint was changed, cut off, or made by or for another owner."""

    code = "checkpoint_refused"
    status = 422


class HostBusy(SandboxError):
    """The host, or the queue of a sandbox, is full; try again after so many seconds."""

    code = "host_busy"
    status = 503
    retryable = True
    details = ("retry_after_s",)

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SandboxMissing(SandboxError, LookupError):
    """There is no sandbox with this id."""

    code = "sandbox_missing"
    status = 404


class SandboxTaken(SandboxError):
    """The sandbox is live in another process."""

    code = "sandbox_taken"
    status = 409


class StoreFailed(SandboxError):
    """The store could not be written or read."""

    code = "store_failed"
    status = 503
    retryable = True


class PackageError(SandboxError):
    """Packages could not be resolved, fetched or verified."""

    code = "package_error"
    status = 422
