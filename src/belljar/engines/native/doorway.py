"""The doorway of one sandbox: a listener in its own network, which was there before any code, answered by the proxy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from belljar.errors import SandboxError

if TYPE_CHECKING:
    from belljar.egress.server import Egress


class Doorway:
    """Owns the listener. Nothing is imported, and nobody accepts, before the first connection."""

    def __init__(self, listener: int) -> None:
        self._listener = socket.socket(fileno=listener)
        self._egress: Callable[[], Awaitable[Egress]] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._leave: Callable[[], object] | None = None  # once the proxy has the listener

    def open(self, egress: Callable[[], Awaitable[Egress]]) -> None:
        """Have connections answered by this proxy; once, since a sandbox has but one."""
        if self._egress is None:
            self._egress = egress
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._first)

    def close(self) -> None:
        """Nobody comes in any more; the network of the sandbox can end."""
        if self._opening is not None:
            self._opening.cancel()
        if self._leave is not None:
            self._leave()
        elif self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()

    def _first(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        self._opening = loop.create_task(self._hand_over())

    async def _hand_over(self) -> None:
        assert self._egress is not None
        try:
            egress = await self._egress()
            self._leave = egress.listen(self._listener)
        except Exception as failure:  # without a proxy there is no way out, and whoever waits is refused
            self._listener.close()
            if not isinstance(failure, SandboxError):  # that it was closed meanwhile is nothing to tell
                context = {"message": "the way out of a sandbox could not be opened", "exception": failure}
                asyncio.get_running_loop().call_exception_handler(context)
