"""The service: the one contract through which every surface uses sandboxes, wherever they live.

Everything that goes in or comes out is plain data, so that a service can be a server or a fleet. Every act names an
owner. The id of a sandbox of another owner is unknown: it raises what an id raises that never was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from belljar import validation
from belljar.entry import Listing
from belljar.events import Event
from belljar.execution import Completion, Execution, Variable
from belljar.limits import Limits, check
from belljar.policy import Policy

if TYPE_CHECKING:  # few sandboxes are saved, and few callers ask for health: the others do not wait for these imports
    from belljar.health import EngineHealth
    from belljar.state.checkpoint import Checkpoint, CheckpointReport

LIBRARY = ""  # the owner of what a program makes for itself, without a server
MOST_LISTED = 1000
PIECE_BYTES = 1 << 20  # of a file on its way


@dataclass(frozen=True)
class SandboxRequest:
    """What a new sandbox is to be. None stands for the default or, in `restore`, for what the checkpoint says.

    `id` is a fresh UUID of the caller's choice, from which the id of the sandbox follows. A `create` that is sent again
    with it makes no second sandbox.
    `tools` are the names that code inside may call. They are not stored: a durable sandbox has none after a wake.
    """

    engine: str | None = None
    packages: tuple[str, ...] | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits | None = None
    policy: Policy | None = None
    python: str | None = None
    durable: bool = False
    name: str | None = None
    id: str | None = None
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check every field that can be checked without a host.

        Raises:
            InvalidRequest: naming the field.
        """
        for what, given, kind in (("limits", self.limits, Limits), ("policy", self.policy, Policy)):
            if given is not None:
                validation.check_kind(what, given, kind)
        validation.check_text("engine", self.engine)
        validation.check_text("python", self.python)
        validation.check_name("name", self.name)
        _put(self, env=validation.check_environment(self.env), files=validation.checked_files(self.files))
        _put(self, id=None if self.id is None else validation.check_id(self.id))
        _put(self, tools=validation.check_tools(self.tools), durable=bool(self.durable))


@dataclass(frozen=True)
class SandboxInfo:
    """What is known of a sandbox. `restored` says what a checkpoint could not bring back, when it came from one."""

    id: str
    engine: str
    state: Literal["live", "asleep"]
    durable: bool
    created: float
    last_used: float
    name: str | None = None
    python: str | None = None
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    restored: CheckpointReport | None = None


@dataclass(frozen=True)
class RunRequest:
    """One run of code. `args` is empty or has one value. Without `live` the Execution is all that comes back."""

    code: str
    timeout_s: float | None = None
    stdin: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    cwd: str | None = None
    live: bool = False

    def __post_init__(self) -> None:
        """Check every field that can be checked without a host.

        Raises:
            InvalidRequest: naming the field.
        """
        validation.check_code(self.code)
        validation.check_text("stdin", self.stdin)
        validation.check_text("cwd", self.cwd)
        if self.timeout_s is not None:
            check("timeout_s", self.timeout_s)
        for value in self.args:
            validation.check_json("args", value)
        if self.env != {}:
            _put(self, env=validation.check_environment(self.env))
        if self.files != {}:
            _put(self, files=validation.checked_files(self.files))


@dataclass(frozen=True)
class Reply:
    """The answer to a `call` event: a value as plain JSON data, or the name and text of an exception."""

    call_id: int
    value: Any = None
    error: tuple[str, str] | None = None


def _put(value: object, **fields: Any) -> None:
    """Set fields of a frozen value while it is made."""
    for name, field_value in fields.items():
        object.__setattr__(value, name, field_value)


# The class below has a method `list`, which hides the built-in name in its annotations.
Pieces = AsyncGenerator[bytes, None]
Infos = list[SandboxInfo]
Names = list[str]
Completions = list[Completion]
Variables = list[Variable]
Healths = list["EngineHealth"]


class Service(Protocol):
    """Sandboxes of many owners.

    Every method may raise SandboxMissing for an id that this owner does not have, SandboxClosed for a sandbox that was
    closed for good, SandboxTaken for one that is live on another host, and StoreFailed.
    """

    async def create(self, owner: str, request: SandboxRequest) -> SandboxInfo:
        """Start a sandbox. Its id follows from the requested one and from the owner.

        Raises:
            InvalidRequest: when the request cannot be met as it is.
            HostBusy: when there is no room for it.
            SandboxError: when it did not start; nothing of it is left.
        """

    async def get(self, owner: str, id: str, env: Mapping[str, str] | None = None) -> SandboxInfo:
        """Look a sandbox up, without waking it. `env` is for its next wake, since environments are not stored.

        Raises:
            InvalidRequest: when its policy cannot be kept any more, such as a mount whose folder is gone.
        """

    async def list(self, owner: str, after: str | None = None, limit: int = MOST_LISTED) -> Infos:
        """The sandboxes of an owner that are not closed, by id; `after` is the last id of the page before."""

    async def close(self, owner: str, id: str) -> None:
        """End a sandbox for good. Idempotent: an id that is not there raises nothing."""

    async def wake(self, owner: str, id: str) -> SandboxInfo:
        """Have a sandbox live, which it may be already.

        Raises:
            HostBusy: when there is no room for it.
            SandboxError: when it could not be woken; it sleeps on.
        """

    async def hibernate(self, owner: str, id: str) -> bool:
        """Save a durable sandbox and free its memory; its next use wakes it. False while it is in use.

        Raises:
            InvalidRequest: when it is not durable.
            SandboxError: when it could not be saved; it stays as it is.
        """

    def run(self, owner: str, id: str, request: RunRequest) -> AsyncGenerator[Event | Execution, None]:
        """Run code when its turn comes. The last item is the Execution; closing the iterator before stops the run.

        Raises:
            HostBusy: when too many runs wait for this sandbox.
            SandboxError: when Belljar failed. What the code did is in the Execution.
        """

    async def answer_call(self, owner: str, id: str, reply: Reply) -> None:
        """Answer a `call` event of the run that is on. A reply that no call waits for is dropped.

        Raises:
            InvalidRequest: when it is not plain JSON data of at most 1 MiB; the call waits on.
        """

    async def interrupt(self, owner: str, id: str) -> None:
        """Stop the code that runs now, if any; its Execution says `cancelled`."""

    async def reset(self, owner: str, id: str) -> None:
        """Forget all variables; files stay."""

    async def install(self, owner: str, id: str, packages: tuple[str, ...]) -> Names:
        """Add packages and keep everything else; returns `name==version` of what was asked for and what it needs.

        Raises:
            PackageError: with the reason; the sandbox is as it was.
        """

    async def complete(self, owner: str, id: str, code: str, cursor: int) -> Completions:
        """Completions at the cursor."""

    async def variables(self, owner: str, id: str) -> Variables:
        """The variables that there are, described without running their code."""

    async def write_file(self, owner: str, id: str, path: str, pieces: bytes | AsyncIterator[bytes]) -> None:
        """Create or replace a file, with its parents. It is there as a whole or not at all.

        Raises:
            FileError: when the path is refused, or the workspace is full.
        """

    def read_file(self, owner: str, id: str, path: str, max_bytes: int | None = None) -> Pieces:
        """The content of a regular file, in pieces.

        Raises:
            FileError: when it is missing, no regular file, or larger than `max_bytes`, by default the sandbox's disk.
        """

    async def list_files(self, owner: str, id: str, path: str = "") -> Listing:
        """Everything beneath a folder; links are listed, not followed."""

    async def delete_file(self, owner: str, id: str, path: str) -> None:
        """Remove a file, a link, or a folder with all it has."""

    async def checkpoint(self, owner: str, id: str, name: str | None = None) -> Checkpoint:
        """Save the variables and the files, signed for this owner.

        Raises:
            SandboxError: when there is nothing to save, or it could not be saved.
        """

    async def restore(self, owner: str, checkpoint: bytes, request: SandboxRequest) -> SandboxInfo:
        """Start a sandbox in the state of a checkpoint of this owner.

        Raises:
            CheckpointRefused: when it was changed, or signed for another owner.
            SandboxError: as `create` does.
        """

    async def fork(self, owner: str, id: str, count: int) -> Infos:
        """Start `count` sandboxes in the state of a live one, all or none. They are not durable.

        Raises:
            InvalidRequest: when there is never room for so many.
            SandboxError: when there is no state, or a fork did not start.
        """

    async def health(self, owner: str) -> Healths:
        """What every engine of this service can do."""
