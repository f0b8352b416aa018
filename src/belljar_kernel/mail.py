"""The post of one kernel where there are no sockets: Events go to the host, and its messages to the fetch they are for.

For WebAssembly.
"""

from __future__ import annotations

import weakref

from belljar_kernel.denials import Denials
from belljar_kernel.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from belljar_kernel.fetch import Fetch


class Mail:
    """What comes from the host for the requests that are under way."""

    def __init__(self) -> None:
        self.awaited = 0  # by how many coroutines
        self.denials = Denials(lambda _, __: None)
        self.interrupts = Interrupts()
        self.send: Callable[[str, dict[str, Any]], None] = lambda _, __: None
        self._take: Callable[[], Any] = lambda: None
        self._fetches: weakref.WeakValueDictionary[int, Fetch] = weakref.WeakValueDictionary()
        self._last = 0

    def connect(self, take: Callable[[], Any]) -> None:
        """From here on `take()` gives the next message, or nothing."""
        self._take = take

    def register(self, fetch: Fetch) -> int:
        """The number of a new request."""
        self._last += 1
        self._fetches[self._last] = fetch
        return self._last

    def deliver(self) -> bool:
        """Hand out what has come; whether that was anything."""
        came = False
        with self.interrupts:  # a message that was taken is not lost
            while (message := self._take()) is not None:
                came, data = True, message.to_bytes()
                fetch = self._fetches.get(int.from_bytes(data[1:5], "big"))
                if fetch is not None:
                    fetch.take(data[:1], data[5:])
        return came


mail = Mail()
