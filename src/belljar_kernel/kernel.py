"""Answers Requests: each with its Events and exactly one `done`, whatever the code did. Does no I/O of its own."""

from __future__ import annotations

import builtins
import os

from belljar_kernel import files, tracebacks, workspace
from belljar_kernel.answer import Answer, failure
from belljar_kernel.calls import Calls
from belljar_kernel.configuration import configure
from belljar_kernel.denials import Denials
from belljar_kernel.display import Display, Results
from belljar_kernel.execute import Session
from belljar_kernel.figures import Figures
from belljar_kernel.images import patch_pillow, patch_plotly
from belljar_kernel.imports import ImportWatch
from belljar_kernel.interrupts import Interrupts
from belljar_kernel.notices import patch_threading, patch_warnings
from belljar_kernel.protocol import RESULTS_BYTES, WORKSPACE
from belljar_kernel.run import Run
from belljar_kernel.shield import Shield
from belljar_kernel.streams import EventStreams, Streams
from belljar_kernel.surroundings import Surroundings
from belljar_kernel.tables import patch_pandas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from belljar_kernel.answer import Emit, Event
    from belljar_kernel.state import State

_getpid = os.getpid


class Kernel:
    """One interpreter's worth of state, and the only way to it."""

    def __init__(
        self, streams: Streams | None = None, *, workspace: str = WORKSPACE, interrupts: Interrupts | None = None
    ) -> None:
        self.workspace = os.path.abspath(workspace)
        self.results_bytes = RESULTS_BYTES
        self.surroundings = Surroundings(self.workspace)
        self.session = Session()
        self.display = Display()
        self.figures = Figures(self.display)
        self.streams = streams or EventStreams(self._write)
        self.interrupts = interrupts or Interrupts()
        self.shield = Shield()
        self.state: State | None = None
        self._answer: Answer | None = None
        self.denials = Denials(self.send)
        self.calls = Calls(self.send, self.interrupts)
        self._watch = ImportWatch(
            {
                "matplotlib": self.figures.patch_matplotlib,
                "matplotlib.pyplot": self.figures.patch_pyplot,
                "pandas": patch_pandas,
                "PIL.Image": lambda module: patch_pillow(module, self.display),
                "plotly.io": lambda module: patch_plotly(module, self.display),
                "threading": lambda module: patch_threading(module, self.workspace, self.streams.complain),
                "warnings": patch_warnings,
            }
        )

    def watch(self, actions: dict[str, Callable[[Any], None]]) -> None:
        """Act on more modules than every engine's kernel does."""
        self._watch.add(actions)

    def watch_imports(self) -> None:
        """Be there when a module is imported that shows things, and act for those that are there."""
        self._watch.install()

    def handle(self, request: object, emit: Emit) -> None:
        """Answer one Request."""
        fields = request if type(request) is dict else {}
        number = fields.get("id")
        number = number if type(number) is int else 0
        self._answer = answer = Answer(number, emit, self.streams.flush, self.interrupts)
        try:
            done = self._dispatch(fields, answer)
        except BaseException as error:
            done = failure(tracebacks.name_of(error), tracebacks.cap(tracebacks.text_of(error), 4096))
        self.interrupts.close()
        answer.finish(done)

    def _dispatch(self, request: dict[str, Any], answer: Answer) -> Event:
        kind = request.get("type")
        if kind == "run":
            return self._run(request, answer)
        if kind == "configure":
            return configure(self, request)
        if kind == "imports":
            self.interrupts.open()
            self.interrupts.arm()  # the code's own finders are asked for this one, too
            from belljar_kernel.needs import needs

            self.interrupts.disarm()
            return needs(self.surroundings, self.interrupts, request)
        names = self.session.namespace
        if kind == "complete":
            from belljar_kernel.complete import complete

            return {"completions": complete(names, request.get("code"), request.get("cursor"), self.workspace)}
        if kind == "variables":
            from belljar_kernel.variables import variables

            return {"variables": variables(names, self.session.own_names, self.workspace)}
        if kind == "save":
            return self._state().save(request, answer)
        if kind == "load":
            return self._state().load(request)
        if type(kind) is str and kind.startswith("file_"):
            return workspace.answer(self.workspace, request)
        raise ValueError(f"unknown request {kind!r:.100}")

    def _state(self) -> State:
        from belljar_kernel.state import State

        if self.state is None:
            self.state = State(self)
        return self.state

    def _run(self, request: dict[str, Any], answer: Answer) -> Event:
        code, count = request.get("code"), request.get("count")
        if type(code) is not str or type(count) is not int:
            raise TypeError("a run needs `code`, a string, and `count`, a whole number")
        pid = _getpid()
        results = Results(answer, self.results_bytes, self.figures)
        run = Run(self, results, code, count)
        before: files.Snapshot = {}
        self.interrupts.open()
        try:
            self._prepare(request, results)
            before = files.snapshot(self.workspace)
            run.execute()
        except BaseException as error:
            run.fail(error)
        if _getpid() != pid:
            run.leave_fork()
        try:
            done = run.report()
        finally:
            self.calls.close()
        self.figures.end()
        self.display.results = None
        self.surroundings.leave()
        self.streams.flush()
        changed = files.changes(before, files.snapshot(self.workspace))
        return {**done, "files": changed, "truncated": results.truncated}

    def _prepare(self, request: dict[str, Any], results: Results) -> None:
        env = request.get("env") or {}
        self.streams.install(request.get("stdin"))
        self.denials.begin()
        self.surroundings.enter(env, request.get("cwd"))
        self.watch_imports()
        self.figures.begin(os.environ.get("MPLBACKEND"))
        self.display.results = results
        vars(builtins)["display"] = self.display
        self.session.prepare(*([request["args"]] if "args" in request else []))
        self.calls.open()

    def _write(self, stream: str, text: str) -> None:
        self.send(stream, {"text": text})

    def send(self, type: str, fields: Event) -> None:
        """Emit an Event of the Request at hand."""
        if self._answer is not None:
            self._answer.send(type, fields)
