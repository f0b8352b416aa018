"""Collects what a run prints and shows. Nothing that a kernel sends is trusted: all of it is capped and checked."""

from __future__ import annotations

from collections.abc import Callable

from belljar import events
from belljar.engines.base import Event
from belljar.execution import Execution, Result
from belljar.host.conclusion import weight
from belljar.host.overflow import Overflow
from belljar_kernel.protocol import OUTPUT, RESULTS_BYTES

MAX_RESULTS = 1000

OnEvent = Callable[[events.Event], None]


class Recorder:
    """Collects one run into its Execution, and passes checked events on as they happen."""

    def __init__(
        self,
        execution: Execution,
        output_bytes: int,
        overflow: Overflow,
        on_event: OnEvent | None,
        on_denial: Callable[[Event], None],
        on_call: Callable[[Event], None],
    ) -> None:
        self.execution = execution
        self._overflow = overflow
        self._output_left = output_bytes
        self._results_left = RESULTS_BYTES
        self._pass_on = on_event
        self._on_denial = on_denial
        self._on_call = on_call

    def __call__(self, event: Event) -> None:
        """Take one event of the kernel as it happens."""
        if event["type"] == "denial":
            self._on_denial(event)
            return
        if event["type"] == "call":
            self._on_call(event)
            return
        kept = self._output(event) if event["type"] in OUTPUT else self._result(event)
        if kept is not None and self._pass_on is not None:
            self._pass_on(kept)

    def _output(self, event: Event) -> events.Output | None:
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

    def _result(self, event: Event) -> events.Shown | None:
        data, metadata = event.get("data"), event.get("metadata")
        if not isinstance(data, dict) or not isinstance(metadata, dict):
            return None
        data = {mime: content for mime, content in data.items() if _is_well_formed(mime, content)}
        size = sum(len(mime) + weight(content) for mime, content in data.items()) + weight(metadata)
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
