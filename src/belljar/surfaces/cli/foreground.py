"""Code that runs while this terminal watches: events come to the calling thread, Ctrl-C goes to the code."""

from __future__ import annotations

import queue
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from belljar.events import Event
    from belljar.execution import Execution
    from belljar.sandbox import Sandbox


def run(sandbox: Sandbox, code: str, show: Callable[[Event], None], **options: Any) -> Execution:
    """Run code and show its events as they come.

    Events are shown from the calling thread, never from the loop that owns the sandbox: a reader that does not read
    must not hold up an interrupt.

    Raises:
        KeyboardInterrupt: at the second Ctrl-C; the caller ends the sandbox.
    """
    feed: queue.SimpleQueue[Event | Execution | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            feed.put(sandbox.run(code, on_event=feed.put, **options))
        except BaseException as error:
            feed.put(error)

    with _interrupts(sandbox):
        threading.Thread(target=work, name="belljar-run", daemon=True).start()
        while isinstance(item := feed.get(), dict):
            show(item)
    if isinstance(item, BaseException):
        raise item
    return item


@contextmanager
def _interrupts(sandbox: Sandbox) -> Iterator[None]:
    """Send the first Ctrl-C to the code; let the second raise KeyboardInterrupt here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=_interrupt, args=(sandbox,), daemon=True).start()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(sandbox: Sandbox) -> None:
    from belljar.errors import SandboxError

    try:
        sandbox.interrupt()
    except SandboxError:
        pass  # it ended by itself in the meantime
