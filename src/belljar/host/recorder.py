"""Builds an Execution from a kernel's events. Nothing in them is trusted: all of it is capped and checked here."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable

from belljar.engines.base import Event, Listing, OnEvent, ignore
from belljar.execution import ChangedFile, Execution, ExecutionError, Result
from belljar.host.overflow import Overflow

RESULTS_BYTES = 16 << 20
VALUE_BYTES = 1 << 20
MAX_RESULTS = 1000
MAX_FILES = 1000
CODES = frozenset({
    "PYTHON_SYNTAX_ERROR", "MODULE_NOT_FOUND", "IMPORT_ERROR", "RUNTIME_ERROR", "MEMORY_ERROR", "DISK_LIMIT",
    "PROCESS_LIMIT", "CANCELLED",
})  # fmt: skip


class Recorder:
    """Collects one run."""

    def __init__(self, execution: Execution, output_bytes: int, overflow: Overflow, on_event: OnEvent | None) -> None:
        self.execution = execution
        self._overflow = overflow
        self._output_left = output_bytes
        self._results_left = RESULTS_BYTES
        self._pass_on = on_event
        self.failure: BaseException | None = None  # of the callback, which is not called again then
        self.on_failure: Callable[[], object] = lambda: None
        self.on_denial: OnEvent = ignore

    def __call__(self, event: Event) -> None:
        """Take one event as it happens."""
        if event["type"] == "denial":
            return self.on_denial(event)
        kept = self._output(event) if event["type"] in ("stdout", "stderr") else self._result(event)
        if kept is None or self._pass_on is None:
            return None
        try:
            self._pass_on(kept)
        except BaseException as failure:  # not even SystemExit may end the loop that serves every sandbox
            self.failure, self._pass_on = failure, None
            self.on_failure()
        return None

    def finish(self, done: Event) -> None:
        """Take the final event."""
        execution = self.execution
        execution.status = "ok" if done.get("status") == "ok" else "error"
        execution.error = _error(done.get("error"))
        if execution.error is not None and execution.status == "ok":
            execution.status = "error"
        if execution.error is not None and execution.error.code == "MEMORY_ERROR":
            execution.status = "out_of_memory"
        value = done.get("value")
        if _weight(value) <= VALUE_BYTES:
            execution.value = value
        else:
            execution.truncated = True
        code = done.get("exit_code")
        execution.exit_code = code if type(code) is int and -(2**31) <= code < 2**32 else 1
        execution.truncated = execution.truncated or done.get("truncated") is True
        execution.files = _files(done.get("files"))

    def find_files(self, listing: Listing) -> None:
        """Take what the workspace has instead of what the final event would have told."""
        files = [entry for entry in listing if entry.type == "file"]
        self.execution.files = [ChangedFile(entry.path, entry.size, _mime(entry.path)) for entry in files[:MAX_FILES]]

    def _output(self, event: Event) -> Event | None:
        text = event["text"]
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self._output_left:
            self.execution.truncated = True
            whole = text
            text = whole.encode("utf-8", "surrogatepass")[: self._output_left].decode("utf-8", "ignore")
            self._overflow.add(event["type"], whole[len(text) :])
            size = self._output_left
        self._output_left -= size
        if not text:
            return None
        getattr(self.execution.logs, event["type"]).append(text)
        return {"type": event["type"], "text": text}

    def _result(self, event: Event) -> Event | None:
        data, metadata = event.get("data"), event.get("metadata")
        if not isinstance(data, dict) or not isinstance(metadata, dict):
            return None
        data = {mime: content for mime, content in data.items() if _is_well_formed(mime, content)}
        size = sum(len(mime) + _weight(content) for mime, content in data.items()) + _weight(metadata)
        if size > self._results_left or len(self.execution.results) >= MAX_RESULTS:
            self.execution.truncated = True
            return None
        self._results_left -= size
        main = event.get("main") is True
        self.execution.results.append(Result.from_bundle(data, metadata, main))
        return {"type": "result", "data": data, "metadata": metadata, "main": main}


def _is_well_formed(mime: str, content: object) -> bool:
    """Text and binary formats are strings; JSON formats are anything JSON, tables are objects."""
    if mime.endswith("+json"):
        return isinstance(content, dict)
    return mime == "application/json" or isinstance(content, str)


def _weight(content: object) -> int:
    if isinstance(content, str):
        return len(content)
    return len(json.dumps(content)) if content else 0


def _error(given: object) -> ExecutionError | None:
    if not isinstance(given, dict):
        return None
    line, code = given.get("line"), given.get("code")
    return ExecutionError(
        name=_text(given.get("name")) or "Exception",
        value=_text(given.get("value")),
        traceback=_text(given.get("traceback")),
        line=line if type(line) is int and line > 0 else None,
        code=code if isinstance(code, str) and code in CODES else "RUNTIME_ERROR",
    )


def _files(given: object) -> list[ChangedFile]:
    if not isinstance(given, list):
        return []
    files = []
    for row in given[:MAX_FILES]:
        path, size = (row.get("path"), row.get("size")) if isinstance(row, dict) else (None, None)
        if isinstance(path, str) and type(size) is int and size >= 0:
            files.append(ChangedFile(path[:4096], size, _mime(path)))
    return files


def _mime(path: str) -> str:
    name = path.rpartition("/")[2].replace(":", "_")  # it would be read as a URL
    return mimetypes.guess_type(name, strict=False)[0] or "application/octet-stream"


def _text(given: object) -> str:
    return given[: 1 << 20] if isinstance(given, str) else ""
