"""The exchange with a Python in WebAssembly, which may end while its process goes on."""

from __future__ import annotations

from belljar.engines.base import Event, OnEvent
from belljar.engines.transport.exchange import Exchange
from belljar.engines.wasm.builtins import is_builtin


class PythonExchange(Exchange):
    """An exchange that may be ended from inside. `code` is with what exit code, if it was.

    Calls that the engine answers itself go to `on_builtin`, whatever Request is open.
    """

    def __init__(self) -> None:
        super().__init__()
        self.code: int | None = None
        self.on_builtin: OnEvent | None = None

    def dispatch(self, event: Event) -> None:
        """Python's end is told by its process."""
        if event["type"] == "ended" and type(event.get("code")) is int:
            self.code = event["code"] & 0xFF
            self.end(None)
        elif self.on_builtin is not None and is_builtin(event) and self.is_open(event):
            self.on_builtin(event)
        else:
            super().dispatch(event)
