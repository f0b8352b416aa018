"""What a guest meets: HTTP's CONNECT and absolute requests, and SOCKS5, told apart by the first byte."""

from __future__ import annotations

import asyncio
import contextlib

from belljar.egress import socks
from belljar.egress.answers import ESTABLISHED, answer
from belljar.egress.forward import Forward
from belljar.egress.gate import Gate
from belljar.egress.heads import Head, read_head
from belljar.egress.hosts import NotAHost, authority, split_authority
from belljar.egress.refusals import Refused, Unreachable
from belljar.egress.streams import CHUNK, Stream
from belljar.egress.tunnel import tunnel
from belljar.egress.urls import parse_url, same_host


async def attend(guest: Stream, gate: Gate) -> None:
    """Serve one connection of a guest from its first byte to its end."""
    try:
        async with asyncio.timeout(gate.caps.head_s):
            first = await guest.recv(CHUNK)
    except TimeoutError:
        gate.report(gate.caps.slow_head())
        return guest.close()
    guest.put_back(first)
    if not first:
        guest.close()
    elif first[0] == socks.VERSION:
        await socks.attend(guest, gate)
    else:
        await _attend_http(guest, gate)
    return None


async def turn_away(guest: Stream, refused: Refused) -> None:
    """Answer without having read anything."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1):
            await guest.send(answer(refused))
            await guest.linger()
    guest.close()


async def _attend_http(guest: Stream, gate: Gate) -> None:
    service = _Service(guest, gate)
    try:
        await service.run()
    except (Refused, Unreachable) as problem:
        if isinstance(problem, Refused):
            gate.report(problem)
        if service.answered:
            return guest.abort()
        with contextlib.suppress(OSError):
            await guest.send(answer(problem))
            await guest.linger()
        guest.close()
    except OSError:
        guest.abort()
    else:
        guest.close()
    return None


class _Service:
    """One request over HTTP, and whether anything of an answer is out already."""

    def __init__(self, guest: Stream, gate: Gate) -> None:
        self._guest = guest
        self._gate = gate
        self._established = False
        self._forward: Forward | None = None

    @property
    def answered(self) -> bool:
        return self._established or (self._forward is not None and self._forward.answered)

    async def run(self) -> None:
        try:
            async with asyncio.timeout(self._gate.caps.head_s):
                head = await read_head(self._guest, self._gate.caps.head_bytes)
        except TimeoutError:
            raise self._gate.caps.slow_head() from None
        if head is None:
            return
        if head.method == "CONNECT":
            await self._connect(head)
        else:
            await self._request(head)

    async def _connect(self, head: Head) -> None:
        try:
            host, port = split_authority(head.target, None)
        except NotAHost as reason:
            raise Refused(head.target, "CONNECT must name a host and a port", str(reason), status=400) from None
        for value in head.values(b"host"):
            if not same_host(value.decode("latin-1"), host, port, default_port=port):
                raise _two_hosts(authority(host, port), value)
        line = await self._gate.connect(host, port, "connect")
        try:
            self._established = True
            await self._guest.send(ESTABLISHED)
            await tunnel(self._guest, line, host)
        except BaseException:
            line.close(broken=True)
            raise
        line.close()

    async def _request(self, head: Head) -> None:
        if head.target.startswith("/") or head.target == "*":
            raise Refused("a request", "this is a proxy", "its requests name a whole URL", status=400)
        url = parse_url(head.target)
        if url.scheme != "http":
            raise Refused(str(url), "only http goes through the proxy in the clear", "use CONNECT for https")
        for value in head.values(b"host"):
            if not same_host(value.decode("latin-1"), url.host, url.port, default_port=80):
                raise _two_hosts(authority(url.host, url.port), value)
        self._forward = Forward(self._guest, head, url, self._gate.caps.head_bytes)
        line = await self._gate.connect(url.host, url.port, "http")
        try:
            await self._forward.run(line)
        except BaseException:
            line.close(broken=True)
            raise
        line.close()
        await self._guest.linger()


def _two_hosts(target: str, header: bytes) -> Refused:
    named = header.decode("latin-1")
    return Refused(target, "the Host header must name the host of the request", f"it says {named}", status=400)
