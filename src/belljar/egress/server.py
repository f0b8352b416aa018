"""The egress proxy of one sandbox: the only way from inside to the network, for every engine."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterable
from functools import cached_property
from types import TracebackType
from typing import Any

from belljar.egress import fetch
from belljar.egress.caps import Caps, Pace
from belljar.egress.front import attend, turn_away
from belljar.egress.gate import Gate
from belljar.egress.refusals import Refused
from belljar.egress.resolver import Resolver
from belljar.egress.rules import Rules
from belljar.egress.streams import SocketStream, Stream
from belljar.errors import SandboxClosed
from belljar.execution import Denial

_PAUSE_S = 0.05
_TURNED_AWAY_AT_ONCE = 32


class Egress:
    """Serves one sandbox over listeners, accepted connections and single requests: one allow-list, one set of caps.

    Args:
        network: the entries of `Policy.network`; empty means that everything is refused.
        caps: how much the sandbox may use.
        resolver: names to addresses; the machine's own by default.
        on_denial: called with every refusal, at once. A guest decides how often: keep only as many as you need.
        tls: trust for `fetch`; the machine's own by default. Tunnels are never decrypted.

    Raises:
        InvalidRequest: for an entry of `network` that has no clear meaning.
    """

    def __init__(
        self,
        network: Iterable[str] | None = (),
        *,
        caps: Caps | None = None,
        resolver: Resolver | None = None,
        on_denial: Callable[[Denial], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._gate = Gate(Rules.parse(network), caps or Caps(), resolver, on_denial)
        self._given_tls = tls
        self._pace = Pace(self._gate.caps)
        self._tasks: set[asyncio.Task[None]] = set()
        self._turned_away = 0
        self._closed = False

    def listen(self, listener: socket.socket | int) -> Callable[[], object]:
        """Accept guests on a listening socket, or on the descriptor of one; it is closed with the proxy.

        The socket may belong to another network namespace: connections to the world are made from this one.

        Returns:
            What ends this listener alone; connections that were accepted go on.
        """
        if isinstance(listener, int):
            listener = socket.socket(fileno=listener)
        listener.setblocking(False)
        task = self._start(self._accept(listener), listener.close)
        return task.cancel

    def serve(self, guest: socket.socket) -> None:
        """Serve one accepted connection, in the background."""
        stream = SocketStream(guest)
        self._start(self._attend(stream), stream.close)

    async def fetch(
        self,
        method: str,
        url: str,
        headers: fetch.Headers = (),
        body: fetch.Body = None,
        *,
        redirects: int = 0,
        length: int | None = None,
        on_connect: Callable[[], None] | None = None,
    ) -> fetch.Response:
        """Make one request for a guest that has no sockets.

        The response's body streams and is not decoded. A redirect is returned, or followed when `redirects` allows it:
        every hop is checked like the first, and credentials do not go to another host. `length` is that of a body that
        streams, where it is known; `on_connect` is called when a host has taken the connection.

        Raises:
            Refused: by a rule; it has been reported to `on_denial`.
            Unreachable: when the host does not answer, or not in HTTP, or without a certificate that can be trusted.
        """
        self._check_open()
        return await fetch.fetch(self._gate, self._tls, method, url, headers, body, redirects, length, on_connect)

    async def close(self) -> None:
        """End everything at once: listeners, connections and what is on its way."""
        self._closed = True
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._gate.close()

    async def __aenter__(self) -> Egress:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosed("the sandbox's network is closed")

    def _start(self, work: Coroutine[Any, Any, None], close: Callable[[], None]) -> asyncio.Task[None]:
        if self._closed:
            work.close()
            close()
            self._check_open()
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: close())  # also when it was cancelled before it began
        return task

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                guest, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
                    raise
                await asyncio.sleep(_PAUSE_S)  # no descriptors left, or a guest that has gone again
                continue
            self.serve(guest)
            await asyncio.sleep(self._pace.delay(loop.time()))

    async def _attend(self, guest: Stream) -> None:
        """One connection; whatever happens in it ends it and nothing else."""
        try:
            self._gate.enter()
        except Refused as refused:
            self._gate.report(refused)
            return await self._turn_away(guest, refused)
        try:
            await attend(guest, self._gate)
        except asyncio.CancelledError:
            guest.abort()
            raise
        except Exception as error:
            guest.abort()
            if not isinstance(error, OSError):
                context = {"message": "a connection of the egress proxy failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        finally:
            self._gate.leave()
        return None

    async def _turn_away(self, guest: Stream, refused: Refused) -> None:
        """Say why while few are waiting to hear it; a flood is only cut."""
        if self._turned_away >= _TURNED_AWAY_AT_ONCE:
            return guest.abort()
        self._turned_away += 1
        try:
            await turn_away(guest, refused)
        except BaseException:
            guest.abort()
            raise
        finally:
            self._turned_away -= 1
        return None
