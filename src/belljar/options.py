"""The keyword arguments of sandboxes and of runs, and the plain values that the service gets of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from belljar.errors import CheckpointRefused, SandboxError
from belljar.events import Event
from belljar.limits import Limits
from belljar.policy import Policy
from belljar.service.base import LIBRARY, RunRequest
from belljar.settings import Settings
from belljar.validation import Content, checked_files, checked_requirements

if TYPE_CHECKING:  # few sandboxes are saved: the others do not wait for this import
    from belljar.state.checkpoint import Checkpoint

OnEvent = Callable[[Event], None]


class SandboxOptions(TypedDict, total=False):
    """What a sandbox can be made with, beside its engine."""

    packages: Sequence[str]
    files: Mapping[str, Content] | None
    env: Mapping[str, str] | None
    limits: Limits | None
    policy: Policy | None
    tools: Sequence[Callable[..., Any]] | None
    python: str | None
    durable: bool
    host: str | None
    name: str | None


class StreamOptions(TypedDict, total=False):
    """What a run can be given, beside its code."""

    timeout: float | None
    stdin: str | None
    env: Mapping[str, str] | None
    args: Any
    files: Mapping[str, Content] | None
    packages: Sequence[str] | None
    cwd: str | None


class RunOptions(StreamOptions, total=False):
    """StreamOptions plus `on_event`, a callback for events while the code runs."""

    on_event: OnEvent | None


def run_request(settings: Settings, code: str, *, live: bool, **options: Unpack[StreamOptions]) -> RunRequest:
    """Make the request of a run, which checks its fields.

    Raises:
        InvalidRequest: for the first argument that is invalid.
    """
    env, args = options.get("env"), options.get("args")
    return RunRequest(
        code=code,
        timeout_s=options.get("timeout"),
        stdin=options.get("stdin"),
        env={} if env is None else env,
        args=() if args is None else (args,),
        files=checked_files(options.get("files")),
        packages=checked_requirements(options.get("packages"), settings),
        cwd=options.get("cwd"),
        live=live,
    )


def bytes_of(checkpoint: Checkpoint | bytes) -> bytes:
    """The bytes of a checkpoint, whose signature the service checks.

    Raises:
        CheckpointRefused: when the object says that it belongs to another owner than the library.
    """
    if isinstance(checkpoint, bytes | bytearray | memoryview):
        return bytes(checkpoint)
    if checkpoint.owner != LIBRARY:
        raise CheckpointRefused(f"this checkpoint belongs to another owner, {checkpoint.owner!r}")
    return checkpoint.to_bytes()


def notify(on_event: OnEvent, event: Event) -> None:
    """Call the caller's function. Nothing that it raises may end the loop that serves every sandbox.

    Raises:
        Exception: what it raised; the run is stopped then.
    """
    try:
        on_event(event)
    except Exception:
        raise
    except BaseException as failure:
        raise SandboxError(f"on_event raised {type(failure).__name__}") from failure
