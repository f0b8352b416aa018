"""What a run must have done, whole: every field that a case does not name has its default, and is compared too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from belljar.execution import ChangedFile, Execution, ExecutionError, Logs, Result, Status

Frame = tuple[int, str, str]
HEADER = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Expected:
    """An Execution to be, before the code and its number are known.

    `fault` is (name, message, line, code); its traceback is `traceback`, or is derived from `frames` and the code. It
    is written here without the newline at its end, and is what the code's own standard error ends with, when `echoed`.
    """

    execution: Execution = field(default_factory=Execution)
    fault: tuple[str, str, int | None, str] | None = None
    frames: tuple[Frame, ...] | None = None
    traceback: str | None = None
    echoed: bool = True
    hint: bool = False

    def resolve(self, code: str, count: int) -> dict[str, Any]:
        """The whole expected Execution of this code as the case's run number `count`."""
        logs, failure = self.execution.logs, None
        if self.fault is not None:
            name, message, line, kind = self.fault
            text = self.traceback if self.traceback is not None else self._derive(code)
            text += "\n" if text else ""
            failure = ExecutionError(
                name, message, text, line, kind, "a hint" if self.hint or kind == "MODULE_NOT_FOUND" else None
            )
            if self.echoed:
                logs = Logs(logs.stdout, [*logs.stderr, text])
        counted = self.execution.execution_count or count
        return replace(self.execution, error=failure, logs=logs, execution_count=counted).to_dict()

    def _derive(self, code: str) -> str:
        assert self.fault is not None
        name, message, line, kind = self.fault
        source = code.splitlines()[line - 1].strip() if line else ""
        if kind == "PYTHON_SYNTAX_ERROR":
            shown = message.removesuffix(f" (main.py, line {line})")
            return f'  File "main.py", line {line}\n    {source}\n{name}: {shown}'
        last = f"{name}: {message}" if message else name
        frames = self.frames if self.frames is not None else ((line or 1, "<module>", source),)
        return "\n".join([HEADER, *(frame(*each) for each in frames), last])


def frame(line: int, function: str, source: str, file: str = "main.py") -> str:
    """One frame of a traceback, as CPython prints it without carets."""
    return f'  File "{file}", line {line}, in {function}' + (f"\n    {source}" if source else "")


def result(text: str | None = None, *, main: bool = False, **formats: Any) -> Result:
    """One result with exactly these formats."""
    return Result(text=text, is_main_result=main, **formats)


def ok(
    stdout: str = "",
    *,
    stderr: str = "",
    text: str | None = None,
    value: Any = None,
    results: Sequence[Result] | None = None,
    files: Sequence[ChangedFile] = (),
    **fields: Any,
) -> Expected:
    """The code ended well. `text` alone stands for one main result that has nothing but that text."""
    return Expected(_execution("ok", stdout, stderr, text, value, results, files, fields))


def error(
    name: str,
    message: str = "",
    *,
    line: int | None = 1,
    code: str = "RUNTIME_ERROR",
    frames: Sequence[Frame] | None = None,
    traceback: str | None = None,
    stdout: str = "",
    stderr: str = "",
    results: Sequence[Result] | None = None,
    files: Sequence[ChangedFile] = (),
    status: Status = "error",
    **fields: Any,
) -> Expected:
    """The code raised. One frame in `<module>` at `line` unless `frames` or the whole `traceback` say otherwise."""
    execution = _execution(status, stdout, stderr, None, None, results, files, {"exit_code": 1, **fields})
    return Expected(execution, (name, message, line, code), None if frames is None else tuple(frames), traceback)


def syntax_error(message: str, *, line: int = 1, name: str = "SyntaxError", **more: Any) -> Expected:
    """The code does not compile. The error's text names the place as well, as CPython has it."""
    return error(name, f"{message} (main.py, line {line})", line=line, code="PYTHON_SYNTAX_ERROR", **more)


def file(path: str, size: int, mime: str = "text/plain") -> ChangedFile:
    """A file that the run must report."""
    return ChangedFile(path, size, mime)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The html of a DataFrame after the normaliser: the first cell of each row is its label."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(
        "<tr>" + f"<th>{row[0]}</th>" + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _execution(
    status: Status,
    stdout: str,
    stderr: str,
    text: str | None,
    value: Any,
    results: Sequence[Result] | None,
    files: Sequence[ChangedFile],
    fields: Mapping[str, Any],
) -> Execution:
    shown = list(results) if results is not None else [result(text, main=True)] if text is not None else []
    logs = Logs([stdout] if stdout else [], [stderr] if stderr else [])
    return Execution(status=status, results=shown, logs=logs, value=value, files=list(files), **fields)
