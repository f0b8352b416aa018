"""Answers Requests: each with its Events and exactly one `done`, whatever the code did. Does no I/O of its own."""

from __future__ import annotations

import builtins
import os

from belljar_kernel import files, tracebacks
from belljar_kernel.answer import Answer, failure
from belljar_kernel.configuration import configure
from belljar_kernel.display import RESULTS_BYTES, Display, Results
from belljar_kernel.execute import Session, exit_status
from belljar_kernel.figures import Figures
from belljar_kernel.images import patch_pillow, patch_plotly
from belljar_kernel.imports import ImportWatch
from belljar_kernel.interrupts import Interrupts
from belljar_kernel.shield import Shield
from belljar_kernel.streams import EventStreams, Streams
from belljar_kernel.surroundings import Surroundings
from belljar_kernel.value import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from belljar_kernel.answer import Emit, Event

_getpid, _exit = os.getpid, os._exit


class Kernel:
    """One interpreter's worth of state, and the only way to it."""

    def __init__(
        self, streams: Streams | None = None, *, workspace: str = "/workspace", interrupts: Interrupts | None = None
    ) -> None:
        self.workspace = os.path.abspath(workspace)
        self.results_bytes = RESULTS_BYTES
        self.surroundings = Surroundings(self.workspace)
        self.session = Session()
        self.display = Display()
        self._streams = streams or EventStreams(self._write)
        self._interrupts = interrupts or Interrupts()
        self._shield = Shield()
        self._figures = Figures()
        self._answer: Answer | None = None
        self._pid = _getpid()
        self._watch = ImportWatch(
            {
                "matplotlib": self._figures.patch_matplotlib,
                "matplotlib.pyplot": lambda module: self._figures.patch_pyplot(module, self._publish),
                "PIL.Image": lambda module: patch_pillow(module, self.display),
                "plotly.io": lambda module: patch_plotly(module, self.display),
                "threading": self._patch_threading,
                "warnings": _patch_warnings,
            }
        )

    def handle(self, request: object, emit: Emit) -> None:
        """Answer one Request."""
        fields = request if type(request) is dict else {}
        id = fields.get("id")
        self._answer = answer = Answer(id if type(id) is int else 0, emit, self._streams.flush, self._interrupts)
        try:
            done = self._dispatch(fields, answer)
        except BaseException as error:
            done = failure(tracebacks.name_of(error), tracebacks.cap(tracebacks.text_of(error), 4096))
        self._interrupts.close()
        answer.finish(done)

    def _dispatch(self, request: dict[str, Any], answer: Answer) -> Event:
        kind = request.get("type")
        if kind == "run":
            return self._run(request, answer)
        if kind == "configure":
            return configure(self, request)
        if kind == "complete":
            from belljar_kernel.complete import complete

            return {"completions": complete(self.session.namespace, request["code"], request["cursor"], self.workspace)}
        if kind == "variables":
            from belljar_kernel.variables import variables

            return {"variables": variables(self.session.namespace, self.session.own_names)}
        raise ValueError(f"unknown request {kind!r:.100}")

    def _run(self, request: dict[str, Any], answer: Answer) -> Event:
        code, count = request["code"], request["count"]
        if type(code) is not str or type(count) is not int:
            raise TypeError("a run needs `code`, a string, and `count`, a whole number")
        env = request.get("env") or {}
        self._interrupts.open()
        self.display.results = results = Results(answer, self.results_bytes, self._figures)
        run = _Run(self, results, code, count)
        before: files.Snapshot = {}
        try:
            self._streams.install(request.get("stdin"))
            self.surroundings.enter(env, request.get("cwd"))
            before = files.snapshot(self.workspace)
            self._watch.install()
            self._figures.begin(env.get("MPLBACKEND"))
            setattr(builtins, "display", self.display)  # noqa: B010
            self.session.prepare(*([request["args"]] if "args" in request else []))
            run.execute()
        except BaseException as error:
            run.fail(error)
        if _getpid() != self._pid:
            run.leave_fork()
        done = run.report()
        self._figures.end()
        self.display.results = None
        self.surroundings.leave()
        self._streams.flush()
        changed = files.changes(before, files.snapshot(self.workspace))
        return {**done, "files": changed, "truncated": results.truncated}

    def _publish(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        if self.display.results is not None:
            self.display.results.publish(data, metadata)

    def _write(self, stream: str, text: str) -> None:
        if self._answer is not None:
            self._answer.send(stream, {"text": text})

    def _patch_threading(self, module: Any) -> None:
        def excepthook(arguments: Any) -> None:
            if not (isinstance(arguments.exc_type, type) and issubclass(arguments.exc_type, SystemExit)):
                self._streams.complain(tracebacks.show_thread_error(arguments, self.workspace))

        module.excepthook = module.__excepthook__ = excepthook


class _Run:
    """One run of code, from its source to the fields of `done`."""

    def __init__(self, kernel: Kernel, results: Results, code: str, count: int) -> None:
        self._kernel = kernel
        self._results = results
        self._code = code
        self._count = count
        self._cell = ""
        self._compiling = False
        self._error: BaseException | None = None
        self._value: Any = None

    def execute(self) -> None:
        """Run the code and show its value.

        Raises:
            BaseException: whatever the code raises, or an interrupt.
        """
        kernel, interrupts = self._kernel, self._kernel._interrupts
        try:
            interrupts.arm()
            self._compiling = True
            cell = kernel.session.compile(self._code, self._count)
            self._compiling = False
            self._cell = cell.name
            try:
                kernel._shield.down()
                value = kernel.session.execute(cell)
            finally:
                kernel._shield.up()
            if _getpid() == kernel._pid and value is not None:
                self._results.show(value, main=True)
                self._value = value_of(value)
            interrupts.disarm()
        finally:
            interrupts.disarm()

    def fail(self, error: BaseException) -> None:
        """Remember what ended the code."""
        self._kernel._interrupts.disarm()
        self._error = error

    def report(self) -> Event:
        """The fields of `done` that are about the code; shows open figures and writes the traceback."""
        kernel = self._kernel
        try:
            kernel._interrupts.arm()
            kernel._figures.capture(kernel._publish, self._complain)
        except BaseException as error:
            self._error = self._error or error
        kernel._interrupts.disarm()
        error = self._error
        code, status, described, interrupted = 0, "ok", None, False
        if error is not None:
            code, text = exit_status(error) if isinstance(error, SystemExit) else (1, None)
            if code:
                status, described = "error", self._describe(error)
                interrupted = described["code"] == "CANCELLED"
            kernel._streams.complain(described["traceback"] if described and text is None else text or "")
            _forget_frames(self)
        return {
            "status": status,
            "error": described,
            "value": self._value if status == "ok" else None,
            "exit_code": code,
            "interrupted": interrupted,
        }

    def leave_fork(self) -> None:
        """End a process that the code forked and that has come to the end of the code: it must not speak for us."""
        error, code = self._error, 0
        if error is not None:
            code, text = exit_status(error) if isinstance(error, SystemExit) else (1, None)
            complaint = tracebacks.render(error, self._kernel.workspace) if text is None else text
            self._kernel._streams.complain(complaint)
        self._kernel._streams.flush()
        _exit(code)

    def _describe(self, error: BaseException) -> dict[str, Any]:
        kernel = self._kernel
        fired = kernel._interrupts.fired
        try:
            kernel._interrupts.arm()  # so that a text that never ends can be interrupted as well
            return tracebacks.describe(error, self._cell, kernel.workspace, self._compiling, fired)
        except BaseException:
            name = tracebacks.name_of(error)
            return failure(name, "<exception str() failed>")["error"]  # type: ignore[no-any-return]
        finally:
            kernel._interrupts.disarm()

    def _complain(self, error: BaseException) -> None:
        self._kernel._streams.complain(tracebacks.render(error, self._kernel.workspace))


def _forget_frames(run: _Run) -> None:
    # The traceback holds the frames, and they the memory, of code that has ended.
    run._error = None


def _patch_warnings(module: Any) -> None:
    from belljar_kernel import source

    original = module.formatwarning

    def formatwarning(message: Any, category: Any, filename: str, lineno: int, line: str | None = None) -> str:
        if source.is_cell(filename):
            import linecache

            line = linecache.getline(filename, lineno) if line is None else line
            filename = source.SHOWN
        return str(original(message, category, filename, lineno, line))

    module.formatwarning = formatwarning

