"""SOCKS5 for clients that know nothing else: CONNECT by name or address, without a password. No UDP, no listening."""

from __future__ import annotations

import asyncio
import contextlib
from ipaddress import IPv4Address, IPv6Address

from belljar.egress.gate import Gate
from belljar.egress.hosts import Host, NotAHost, canonical, unmapped
from belljar.egress.refusals import Refused, Unreachable
from belljar.egress.streams import Stream
from belljar.egress.tunnel import tunnel

VERSION = 5
_NO_PASSWORD = 0
_NONE_OF_THESE = b"\x05\xff"
_CONNECT = 1
_DONE, _NOT_ALLOWED, _UNREACHABLE, _NO_COMMAND, _NO_ADDRESS = 0, 2, 4, 7, 8


async def attend(guest: Stream, gate: Gate) -> None:
    """Serve one SOCKS5 connection to its end."""
    established = False
    try:
        try:
            async with asyncio.timeout(gate.caps.head_s):
                host, port = await _asked(guest)
        except TimeoutError:
            raise gate.caps.slow_head() from None
        line = await gate.connect(host, port, "socks")
        try:
            established = True
            await guest.send(_reply(_DONE))
            await tunnel(guest, line, host)
        except BaseException:
            line.close(broken=True)
            raise
        line.close()
    except (Refused, Unreachable) as problem:
        if isinstance(problem, Refused):
            gate.report(problem)
        if established:
            return guest.abort()
        await _end(guest, _reply(_code(problem)))
    except _NoMethod:
        await _end(guest, _NONE_OF_THESE)
    except (OSError, EOFError):
        guest.abort()
    else:
        guest.close()
    return None


class _NoMethod(Exception):
    """The client insists on a password."""


class _NotServed(Refused):
    """A kind of request that SOCKS has and this proxy has not."""

    def __init__(self, target: str, rule: str, hint: str, code: int) -> None:
        super().__init__(target, rule, hint)
        self.code = code


async def _asked(guest: Stream) -> tuple[Host, int]:
    """Greet, and read where the client wants to go."""
    _, methods = await guest.recv_exactly(2)
    if _NO_PASSWORD not in await guest.recv_exactly(methods):
        raise _NoMethod
    await guest.send(bytes([VERSION, _NO_PASSWORD]))
    version, command, _, kind = await guest.recv_exactly(4)
    if version != VERSION or kind not in (1, 3, 4):
        raise _NotServed("a SOCKS request", "requests must be well-formed SOCKS5", "unknown address type", _NO_ADDRESS)
    raw = await guest.recv_exactly({1: 4, 4: 16}.get(kind) or (await guest.recv_exactly(1))[0])
    port = int.from_bytes(await guest.recv_exactly(2), "big")
    if command != _CONNECT:
        raise _NotServed("UDP or a listening port", "only TCP connections are allowed", "use CONNECT", _NO_COMMAND)
    try:
        if port == 0:
            raise NotAHost("0 is not a port")
        if kind == 3:
            return canonical(raw.decode("utf-8")), port
    except ValueError as reason:
        raise _NotServed(raw.decode("latin-1"), "a host must be named", str(reason), _NOT_ALLOWED) from None
    return (IPv4Address(raw) if kind == 1 else unmapped(IPv6Address(raw))), port


def _code(problem: Refused | Unreachable) -> int:
    if isinstance(problem, _NotServed):
        return problem.code
    return _NOT_ALLOWED if isinstance(problem, Refused) else _UNREACHABLE


def _reply(code: int) -> bytes:
    return bytes([VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0])


async def _end(guest: Stream, reply: bytes) -> None:
    with contextlib.suppress(OSError):
        await guest.send(reply)
        await guest.linger()
    guest.close()
