"""The exchange with a Python in WebAssembly, which may end while its process goes on."""

from __future__ import annotations

from belljar.engines.base import Event, OnEvent
from belljar.engines.transport.exchange import Exchange
from belljar.engines.wasm.fetches import FETCH_EVENTS


class PythonExchange(Exchange):
    """An exchange that may be ended from inside. `code` is with what exit code, if it was.

    Events about the network and about mounts are for the engine, whatever Request is open: `on_fetch`, `on_question`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.code: int | None = None
        self.on_fetch: OnEvent | None = None
        self.on_question: OnEvent | None = None

    def dispatch(self, event: Event) -> None:
        """Python's end is told by its process."""
        if event["type"] == "ended" and type(event.get("code")) is int:
            self.code = event["code"] & 0xFF
            self.end(None)
        elif event["type"] in FETCH_EVENTS and self.on_fetch is not None and self.is_open(event):
            self.on_fetch(event)
        elif event["type"] == "mount" and self.on_question is not None and self.is_open(event):
            self.on_question(event)
        else:
            super().dispatch(event)
