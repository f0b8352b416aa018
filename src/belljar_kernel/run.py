"""One run of code, from its source to the fields of `done` that are about the code."""

from __future__ import annotations

import os

from belljar_kernel import tracebacks
from belljar_kernel.answer import failure
from belljar_kernel.execute import exit_status
from belljar_kernel.formats import records_in
from belljar_kernel.genuine import is_exactly
from belljar_kernel.slots import is_a
from belljar_kernel.value import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from belljar_kernel.answer import Event
    from belljar_kernel.display import Results
    from belljar_kernel.kernel import Kernel

_getpid, _exit = os.getpid, os._exit


class Run:
    """What is known about a run while it goes on."""

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
        kernel, pid = self._kernel, _getpid()
        try:
            kernel.interrupts.arm()
            self._compiling = True
            cell = kernel.session.compile(self._code, self._count)
            self._compiling = False
            self._cell = cell.name
            try:
                kernel.shield.down()
                value = kernel.session.execute(cell)
            finally:
                kernel.shield.up()
            if value is not None and _getpid() == pid:
                shown = self._results.show(value, main=True)
                self._value = value_of(value, records_in(shown) if is_exactly(value, "pandas", "DataFrame") else None)
        finally:
            kernel.interrupts.disarm()

    def fail(self, error: BaseException) -> None:
        """Remember what ended the code; the first of several."""
        self._kernel.interrupts.disarm()
        if self._error is None:
            self._error = error

    def report(self) -> Event:
        """Show what is left open, write the traceback, and tell how the code ended."""
        self._show_figures()
        error, code, described, interrupted = self._error, 0, None, False
        # Its traceback holds the frames, and they the memory, of code that has ended.
        self._error = None
        if error is not None:
            code, complaint = _ending(error)
            if code:
                described = self._describe(error)
            interrupted = self._kernel.interrupts.fired and tracebacks.comes_from(error, KeyboardInterrupt)
            self._kernel.streams.complain(complaint if complaint is not None else (described or {})["traceback"])
        return {
            "status": "ok" if described is None else "error",
            "error": described,
            "value": self._value if described is None else None,
            "exit_code": code,
            "interrupted": interrupted,
        }

    def leave_fork(self) -> NoReturn:
        """End a process that the code forked and that has come to the end of the code: it must not speak for us."""
        code = 0
        if self._error is not None:
            code, complaint = _ending(self._error)
            self._kernel.streams.complain(self._rendered(self._error) if complaint is None else complaint)
        self._kernel.streams.flush()
        _exit(code)

    def _show_figures(self) -> None:
        try:
            self._kernel.interrupts.arm()
            self._kernel.figures.capture(lambda error: self._kernel.streams.complain(self._rendered(error)))
        except BaseException as error:
            self.fail(error)
        self._kernel.interrupts.disarm()

    def _describe(self, error: BaseException) -> dict[str, Any]:
        kernel, fired = self._kernel, self._kernel.interrupts.fired
        try:
            kernel.interrupts.rearm()  # so that a text that never ends can be interrupted as well
            return tracebacks.describe(error, self._cell, kernel.workspace, self._compiling, fired)
        except BaseException:
            described: dict[str, Any] = failure(tracebacks.name_of(error), "<exception str() failed>")["error"]
            return described
        finally:
            kernel.interrupts.disarm()

    def _rendered(self, error: BaseException) -> str:
        return tracebacks.render(error, self._kernel.workspace)


def _ending(error: BaseException) -> tuple[int, str | None]:
    """The exit code, and what goes to standard error: None for the traceback."""
    if is_a(error, SystemExit):
        return exit_status(error)
    return 1, None
