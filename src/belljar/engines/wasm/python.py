"""The exchange with a Python in WebAssembly, which may end while its process goes on."""

from __future__ import annotations

from belljar.engines.base import Event
from belljar.engines.exchange import Exchange


class PythonExchange(Exchange):
    """An exchange that may be ended from inside. `code` is with what exit code, if it was."""

    def __init__(self) -> None:
        super().__init__()
        self.code: int | None = None

    def dispatch(self, event: Event) -> None:
        """Python's end is told by its process."""
        if event["type"] == "ended" and type(event.get("code")) is int:
            self.code = event["code"] & 0xFF
            self.end(None)
        else:
            super().dispatch(event)
