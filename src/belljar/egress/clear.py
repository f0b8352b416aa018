"""HTTP/1 in the clear inside a tunnel: passed on to the byte, once each request is known to ask for the tunnel's host.

Whatever else is spoken in a tunnel is not looked at.
"""

from __future__ import annotations

import re

import h11

from belljar.egress.heads import Head, read_head
from belljar.egress.hosts import Host
from belljar.egress.line import Line
from belljar.egress.refusals import Refused
from belljar.egress.streams import CHUNK, Stream
from belljar.egress.urls import parse_url, same_host

_LONGEST_HEAD = 128 << 10  # also of a first line: servers take less
_VERSION = re.compile(rb"HTTP/(?!2)", re.IGNORECASE)
_BLANK = b"\r\n"


async def pass_requests(guest: Stream, line: Line, host: Host) -> None:
    """Pass on requests for as long as they come; what follows them is left for whoever reads on from the guest.

    Raises:
        Refused: for a request that asks for another host, or that two servers could read differently.
    """
    while (passed := await _begin(guest, line)) is not None:
        head = await read_head(guest, _LONGEST_HEAD)
        if head is None:
            return
        _check(head, line, host)
        await line.send(head.raw[passed:])
        await _pass_body(head, guest, line)


async def _begin(guest: Stream, line: Line) -> int | None:
    """How much of a request is passed on already; None when what comes is none.

    A line is passed on as it comes, since other protocols may wait for an answer to it; but for its end, without which
    no server begins to answer a request.
    """
    data, blank = bytearray(), 0
    while True:
        more = await guest.recv(CHUNK)
        sent = len(data)
        data += more
        if blank == sent:
            blank += len(more) - len(more.lstrip(_BLANK))
        end = data.find(b"\n", max(sent, blank))
        if end >= 0 or not more or len(data) > _LONGEST_HEAD:
            break
        await line.send(more)
        if blank == len(data):
            data, blank = bytearray(), 0
    if end < 0 or not _VERSION.search(data, blank, end):
        guest.put_back(bytes(data[sent:]))
        return None
    await line.send(bytes(data[sent:blank]))
    guest.put_back(bytes(data[blank:]))
    return max(0, sent - blank)


def _check(head: Head, line: Line, host: Host) -> None:
    port = line.connection.port
    asked = [name for name in (value.decode("latin-1") for value in head.values(b"host"))
             if not same_host(name, host, port, default_port=port)]  # fmt: skip
    if not head.target.startswith("/") and head.target != "*":
        url = parse_url(head.target)
        if (url.host, url.port) != (host, port):
            asked.append(str(url))
    if asked:
        rule = "HTTP in the clear must ask for the host of its tunnel"
        raise Refused(line.target, rule, f"a request asks for {asked[0]} inside a tunnel to {line.target}")


async def _pass_body(head: Head, guest: Stream, line: Line) -> None:
    framing = [(name, value) for name, value in head.headers if name in (b"content-length", b"transfer-encoding")]
    if not framing:
        return
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(b"POST / HTTP/1.1\r\nhost: x\r\n%s: %s\r\n\r\n" % framing[0])
    data = b""
    try:
        while not isinstance(event := parser.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                await line.send(data)
                data = await guest.recv(CHUNK)
                if not data:
                    return
                parser.receive_data(data)
    except h11.RemoteProtocolError as error:
        raise Refused(line.target, "requests must be well-formed HTTP/1.1", str(error), status=400) from None
    rest = parser.trailing_data[0]
    await line.send(data[: len(data) - len(rest)])
    guest.put_back(rest)
