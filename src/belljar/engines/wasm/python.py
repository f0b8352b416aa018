"""The exchange with a Python in WebAssembly, which may end before its process does."""

from __future__ import annotations

from belljar.engines.base import Event, OnEvent
from belljar.engines.transport.exchange import Exchange
from belljar.engines.wasm.builtins import is_builtin
from belljar.engines.wasm.runner import Runner


class PythonExchange(Exchange):
    """An exchange that may be ended from inside. `code` is with what exit code, if it was.

    Calls that the engine answers itself go to `on_builtin`, whatever Request is open.
    """

    def __init__(self) -> None:
        super().__init__()
        self.code: int | None = None
        self.on_builtin: OnEvent | None = None
        self._runner: Runner | None = None

    def connect(self, runner: Runner) -> None:
        """From here on bytes go to this process."""
        self.write, self._runner = runner.write, runner

    def unsent(self) -> int:
        """How many bytes its process has not taken yet."""
        return self._runner.unsent() if self._runner is not None else 0

    def dispatch(self, event: Event) -> None:
        """One Event. That Python has ended is an Event which its process sends."""
        if event["type"] == "ended" and type(event.get("code")) is int:
            self.code = event["code"] & 0xFF
            self.end(None)
        elif self.on_builtin is not None and is_builtin(event) and self.is_open(event):
            self.on_builtin(event)
        else:
            super().dispatch(event)
