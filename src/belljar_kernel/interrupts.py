"""SIGINT, only where it may hurt: it raises KeyboardInterrupt in the user's code and never in the kernel's own."""

from __future__ import annotations

import signal
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import TypeVar

    T = TypeVar("T")

_signal, _SIGINT, _KeyboardInterrupt = signal.signal, signal.SIGINT, KeyboardInterrupt


class Interrupts:
    """Says when an interrupt counts. `fired` tells whether one was raised since the Request was opened."""

    def __init__(self) -> None:
        self.fired = False
        self._open = False
        self._armed = False
        self._pending = False
        self._held = 0
        self._thread = get_ident()

    def open(self) -> None:
        """From here an interrupt is meant for the Request at hand; one that came before is forgotten."""
        self.fired = self._armed = self._pending = False
        self._held = 0
        self._thread = get_ident()
        self._open = True
        self.install()

    def close(self) -> None:
        """From here nothing is running that could be interrupted."""
        self._open = self._armed = self._pending = False

    def install(self) -> None:
        """Take SIGINT back from whoever has it. Only a main thread can."""
        try:
            _signal(_SIGINT, self._on_signal)
        except ValueError:
            pass

    def arm(self) -> None:
        """Let interrupts raise; raise the one that waits."""
        self._armed = True
        self._raise_pending()

    def rearm(self) -> None:
        """Let later interrupts raise; forget the one that waits, as the code has ended anyway."""
        self._pending = False
        self._armed = True

    def disarm(self) -> None:
        """Keep later interrupts waiting."""
        self._armed = False

    def __enter__(self) -> None:
        """Hold interrupts back for what must not be cut in half, such as a frame."""
        if get_ident() == self._thread:
            self._held += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if get_ident() == self._thread:
            self._held = max(0, self._held - 1)  # one that was raised in `let` may have come before its end
            self._raise_pending()

    def let(self, blocking: Callable[[], T]) -> T:
        """Let interrupts raise while this blocks, though they are held back around it."""
        if get_ident() != self._thread:
            return blocking()
        held, self._held = self._held, 0
        try:
            self._raise_pending()
            return blocking()
        finally:
            self._held = held

    def _raise_pending(self) -> None:
        if self._pending and self._armed and not self._held:
            self._pending = False
            self.fired = True
            raise _KeyboardInterrupt

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        if self._open:
            self._pending = True
            self._raise_pending()
