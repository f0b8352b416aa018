"""Shows a run's events on two byte streams: output exactly and at once, results as text on lines of their own."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

from belljar.execution import Result
from belljar.surfaces.cli.wording import to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from belljar.events import Event

IMAGES = ("png", "jpeg", "svg", "pdf")


class Screen:
    """Standard output and standard error as a run fills them."""

    def __init__(self, out: IO[bytes], err: IO[bytes], paint_error: Callable[[str], str] | None = None) -> None:
        self._out = out
        self._err = err
        self._paint_error = paint_error
        self._line_open = False

    def show(self, event: Event) -> None:
        """Show output and results as they come; people have no use for other events."""
        if event["type"] == "stdout":
            self._write(event["text"])
        elif event["type"] == "stderr":
            text = self._paint_error(event["text"]) if self._paint_error else event["text"]
            self._err.write(to_bytes(text))
            self._err.flush()
        elif event["type"] == "result":
            self.show_result(Result.from_bundle(event["data"], event["metadata"], event["main"]))

    def show_result(self, result: Result) -> None:
        """Print a result's text on lines of its own; images are saved elsewhere."""
        text = result_text(result)
        if text:
            self._write(("\n" if self._line_open else "") + text + ("" if text.endswith("\n") else "\n"))

    def end_line(self) -> None:
        """Start a new line if the code left one open, so that a prompt has a line of its own."""
        if self._line_open:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(to_bytes(text))
            self._out.flush()
            self._line_open = not text.endswith("\n")


def result_text(result: Result) -> str | None:
    """What of a result can be read in a terminal; nothing when it is an image."""
    if any(getattr(result, name) is not None for name in IMAGES):
        return None
    for text in (result.text, result.markdown, result.latex):
        if text is not None:
            return text
    return json.dumps(result.json, ensure_ascii=False) if result.json is not None else result.html
