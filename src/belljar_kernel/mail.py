"""The post of a kernel where there are no descriptors: replies come through memory that two threads share.

For WebAssembly.
"""

from __future__ import annotations

from belljar_kernel import codec
from belljar_kernel.calls import Calls
from belljar_kernel.denials import Denials
from belljar_kernel.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Mail:
    """What the host replies; and what a request for the network has to know of its kernel."""

    reads_in_thread = False  # there is one thread, and its loops look here

    def __init__(self) -> None:
        self.denials = Denials(lambda _, __: None)
        self.calls = Calls(lambda _, __: None, Interrupts())
        self._take: Callable[[], Any] = lambda: None
        self._wait: Callable[[float], None] = lambda _: None

    def connect(self, take: Callable[[], Any], wait: Callable[[float], None]) -> None:
        """From here on `take()` gives the next message, or nothing, and `wait(seconds)` returns when there is one."""
        self._take, self._wait = take, wait

    def take(self) -> list[dict[str, Any]]:
        """The replies that have come."""
        replies = []
        while (message := self._take()) is not None:
            text, line, data = message.to_bytes().partition(b"\n")  # bytes come as they are, in a line of their own
            reply = codec.decode(text)
            if line:
                reply["value"]["data"] = data
            replies.append(reply)
        return replies

    def wait(self, seconds: float) -> None:
        """Block until there is a message, or for so long."""
        self._wait(seconds)

    def get_ready(self) -> None:
        """Nothing is needed to wait, and no other thread ends it."""

    wake = rest = get_ready


mail = Mail()
