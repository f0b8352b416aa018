"""What code shows: the value of the last expression, `display()`, and what libraries show. Counts it."""

from __future__ import annotations

from belljar_kernel import codec
from belljar_kernel.formats import bundle_of, checked
from belljar_kernel.protocol import RESULT_PARTS
from belljar_kernel.value import NotPlainError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from belljar_kernel.answer import Answer
    from belljar_kernel.figures import Figures


class Results:
    """The results of one run."""

    def __init__(self, answer: Answer, cap: int, figures: Figures) -> None:
        self.truncated = False
        self._answer = answer
        self._left = cap
        self._figures = figures

    def show(self, value: object, metadata: dict[str, Any] | None = None, main: bool = False) -> dict[str, Any]:
        """Show a value in all its formats, and return them.

        Raises:
            Exception: whatever the value's own `__repr__` raises.
        """
        data, found = self._figures.bundle_of(value, main) or bundle_of(value)
        self.publish(data, {**found, **_plain_metadata(metadata)}, main)
        return data

    def publish(self, data: dict[str, Any], metadata: dict[str, Any], main: bool = False) -> None:
        """Send a bundle, or as much of it as the cap still allows; what does not fit is dropped and `truncated` set."""
        kept, parts = {}, 0
        for mime, content in data.items():
            encoded = codec.encode(content)
            size, more = len(encoded), _parts(encoded) if type(content) is not str else 0
            if size <= self._left and parts + more <= RESULT_PARTS:
                self._left -= size
                parts += more
                kept[mime] = content
            else:
                self.truncated = True
        if kept:
            self._answer.send("result", {"data": kept, "metadata": metadata, "main": main})


class Display:
    """The function `display` of every sandbox; shows in whichever run is open."""

    def __init__(self) -> None:
        self.results: Results | None = None

    def __call__(self, *objs: Any, raw: bool = False, metadata: dict[str, Any] | None = None) -> None:
        """Show objects as results. With `raw` each is a MIME bundle already."""
        for value in objs:
            if self.results is None:
                return
            if raw:
                self.results.publish(checked(value), _plain_metadata(metadata))
            else:
                self.results.show(value, metadata)

    def publish(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Show a bundle that is ready."""
        if self.results is not None:
            self.results.publish(data, metadata)

    def __repr__(self) -> str:
        return "<function display>"


def _parts(encoded: bytes) -> int:
    """At least as many as there are: what is in strings is counted as well."""
    return encoded.count(b",") + encoded.count(b"[") + encoded.count(b"{")


def _plain_metadata(metadata: object) -> dict[str, Any]:
    try:
        clean = plain(metadata or {}, 1_000_000)
    except NotPlainError:
        return {}
    return clean if type(clean) is dict else {}
