"""The gate of one sandbox: every way out leads through `connect`, which checks the rule, the addresses and the caps."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address

from belljar.egress.caps import Caps, Meter
from belljar.egress.dial import dial
from belljar.egress.hosts import Address, Host, authority, unmapped
from belljar.egress.line import Connection, Line, Way
from belljar.egress.refusals import Refused, Unreachable, Untrusted
from belljar.egress.resolver import Resolver, SystemResolver
from belljar.egress.rules import Rules
from belljar.egress.streams import PairStream, SocketStream, Stream
from belljar.execution import Denial

_GOODBYE_S = 1.0


class Gate:
    """Rules, caps and hooks of one sandbox."""

    def __init__(
        self,
        rules: Rules,
        caps: Caps,
        resolver: Resolver | None,
        on_denial: Callable[[Denial], None] | None,
    ) -> None:
        self.rules = rules
        self.caps = caps
        self.open = 0
        self._meter = Meter(caps)
        self._resolver = resolver or SystemResolver()
        self._lines: set[Line] = set()
        self._closed = False
        self._on_denial = on_denial

    def enter(self, target: str = "any host") -> None:
        """Count one more connection; `leave` must follow.

        Raises:
            Refused: when the sandbox has as many as it may have.
        """
        if self.open >= self.caps.connections:
            rule = f"a sandbox may have {self.caps.connections} connections at once"
            raise Refused(target, rule, "close some first", status=429)
        self.open += 1

    def leave(self) -> None:
        """Count one connection less."""
        self.open -= 1

    async def connect(self, host: Host, port: int, way: Way, tls: ssl.SSLContext | None = None) -> Line:
        """A line to the host, by the very address that was vetted: the name is looked up once and never again.

        Raises:
            Refused: by a rule, before anything is asked about the name; or because of its addresses, or a cap.
            Unreachable: when the name has no address, or none of them answers.
        """
        target = authority(host, port)
        self.rules.check(host, port)
        self._meter.check(target)
        try:
            async with asyncio.timeout(self.caps.connect_s):
                addresses = [host] if not isinstance(host, str) else await self._addresses(host, port)
                connected, address = await dial(self.rules.vet(host, port, addresses), port)
                stream = SocketStream(connected) if tls is None else await _encrypted(connected, tls, str(host))
                if self._closed:
                    stream.abort()
                    raise ConnectionAbortedError(errno.ECONNABORTED, "the sandbox is closed")
        except TimeoutError:
            raise Unreachable(f"{target} did not answer within {self.caps.connect_s:g} s", 504) from None
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(f"{target} cannot be trusted: {error.verify_message or error}") from None
        except OSError as error:
            raise Unreachable(f"{target} cannot be reached: {error.strerror or error}") from None
        line = Line(stream, Connection(str(host), port, str(address), way), self._meter, self._ended)
        self._lines.add(line)
        return line

    def report(self, refused: Refused) -> None:
        """Tell whoever listens what was refused."""
        if self._on_denial is not None:
            try:
                self._on_denial(refused.denial())
            except Exception as error:  # a listener's own failure is told to the loop and ends nothing here
                context = {"message": "a listener of the egress proxy failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    def close(self) -> None:
        """End every line, and those that are being made."""
        self._closed = True
        for line in list(self._lines):
            line.cut(Unreachable(f"{line.target} was left: the sandbox is closed"))

    async def _addresses(self, host: str, port: int) -> list[Address]:
        try:
            found = await self._resolver(host, port)
            addresses = [unmapped(ip_address(text.partition("%")[0])) for text in found]
        except (OSError, ValueError) as error:
            raise Unreachable(f"{host} has no address: {error}") from None
        if not addresses:
            raise Unreachable(f"{host} has no address")
        return list(dict.fromkeys(addresses))

    def _ended(self, line: Line) -> None:
        self._lines.discard(line)
        if line.connection.way == "fetch":
            self.leave()  # a guest that forgets a response does not keep its place


async def _encrypted(connected: socket.socket, tls: ssl.SSLContext, name: str) -> Stream:
    try:
        reader, writer = await asyncio.open_connection(
            sock=connected, ssl=tls, server_hostname=name, ssl_shutdown_timeout=_GOODBYE_S
        )
    except BaseException:
        connected.close()
        raise
    return PairStream(reader, writer)
