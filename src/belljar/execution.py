"""What one run of code did. Plain data: nothing here runs, reads or trusts anything."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from belljar.errors import SandboxError
from belljar_kernel.protocol import TABLE_MIME

Status = Literal["ok", "error", "timeout", "out_of_memory", "cancelled", "crashed"]
State = Literal["kept", "restored", "reset"]

OUTPUT_FOLDER = ".belljar/output"  # in the workspace: all that a run printed, when that was over its cap
_FIELDS_BY_MIME = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    TABLE_MIME: "data",
}


@dataclass
class Result:
    """One rich result, by format. Binary formats are base64 strings."""

    text: str | None = None
    html: str | None = None
    markdown: str | None = None
    svg: str | None = None
    png: str | None = None
    jpeg: str | None = None
    pdf: str | None = None
    latex: str | None = None
    json: Any = None
    javascript: str | None = None
    data: dict[str, Any] | None = None
    chart: dict[str, Any] | None = None
    is_main_result: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_bundle(cls, data: dict[str, Any], metadata: dict[str, Any], main: bool) -> Result:
        """Sort a Jupyter MIME bundle into fields; what has no field goes to `extra`."""
        result = cls(is_main_result=main)
        for mime, content in data.items():
            name = _FIELDS_BY_MIME.get(mime)
            if name is None:
                result.extra[mime] = content
            else:
                setattr(result, name, content)
        if metadata:
            result.extra["metadata"] = metadata
        return result

    def formats(self) -> list[str]:
        """The names of the formats that this result has."""
        return [name for name in _FIELDS_BY_MIME.values() if getattr(self, name) is not None]

    def to_bytes(self, format: Literal["png", "jpeg", "pdf"] = "png") -> bytes:
        """The decoded bytes of a binary format.

        Raises:
            ValueError: when the result does not have it.
        """
        content = getattr(self, format)
        if content is None:
            raise ValueError(f"this result has no {format}; it has {', '.join(self.formats()) or 'nothing'}")
        return base64.b64decode(content)


@dataclass
class Logs:
    """Output as it came, in chunks."""

    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)


@dataclass
class ExecutionError:
    """Why the code did not end well. `line` is in the code of this run; `hint` is the next step, where there is one."""

    name: str
    value: str
    traceback: str
    line: int | None
    code: str
    hint: str | None = None


@dataclass
class Usage:
    """What the run cost, measured from outside."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0


@dataclass
class ChangedFile:
    """A file in the workspace that the run created or changed."""

    path: str
    size: int
    mime: str


@dataclass
class Denial:
    """Something that the policy refused while the code ran."""

    kind: str
    target: str
    rule: str
    hint: str
    source: str


@dataclass(frozen=True)
class Completion:
    """One way to go on from the cursor; replaces `code[start:end]` by `text`."""

    text: str
    start: int
    end: int
    type: str


@dataclass(frozen=True)
class Variable:
    """A name in the sandbox, described without running its code."""

    name: str
    type: str
    preview: str | None = None
    size: int | None = None
    shape: list[int] | None = None


@dataclass
class Execution:
    """What one run of code did: outputs, results, error, usage."""

    status: Status = "ok"
    results: list[Result] = field(default_factory=list)
    logs: Logs = field(default_factory=Logs)
    error: ExecutionError | None = None
    execution_count: int = 0
    value: Any = None
    usage: Usage = field(default_factory=Usage)
    truncated: bool = False
    files: list[ChangedFile] = field(default_factory=list)
    packages_installed: list[str] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    exit_code: int = 0
    state: State = "kept"
    state_reason: str | None = None
    degraded: list[str] = field(default_factory=list)
    engine: str = ""
    sandbox_id: str = ""

    @property
    def stdout(self) -> str:
        """Everything the code wrote to standard output, exactly."""
        return "".join(self.logs.stdout)

    @property
    def stderr(self) -> str:
        """Everything the code wrote to standard error, exactly."""
        return "".join(self.logs.stderr)

    @property
    def text(self) -> str | None:
        """The main result as text, if there is one."""
        return next((r.text for r in self.results if r.is_main_result), None)

    def raise_for_status(self) -> Execution:
        """Return self when the code ended well.

        Raises:
            ExecutionFailed: otherwise.
        """
        if self.status != "ok":
            raise ExecutionFailed(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON data, with `text`, `stdout` and `stderr` spelled out."""
        return {**asdict(self), "text": self.text, "stdout": self.stdout, "stderr": self.stderr}

    @classmethod
    def from_dict(cls, data: object) -> Execution:
        """The Execution that `to_dict()` made this of, also after a way through JSON.

        Raises:
            InvalidRequest: naming the field that cannot be.
        """
        from belljar.plain import from_plain

        return from_plain(cls, data, strict=False)


class ExecutionFailed(SandboxError):
    """The code did not end well; raised by `Execution.raise_for_status()` only."""

    code = "execution_failed"
    status = 422
    details = ("execution",)

    def __init__(self, execution: Execution) -> None:
        error = execution.error
        super().__init__(f"{error.name}: {error.value}" if error else execution.status)
        self.execution = execution
