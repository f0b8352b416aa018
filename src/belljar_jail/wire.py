"""Orders between the host and the jail: one JSON object and a few descriptors per packet. Both ends are trusted."""

from __future__ import annotations

import json
import socket
from typing import Any

MAX_BYTES = 1 << 18
MAX_DESCRIPTORS = 32
DOORWAY = ("127.0.0.1", 3128)  # where a sandbox finds its way out

Message = dict[str, Any]


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep packets whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: Message, descriptors: list[int] | None = None) -> None:
    """Send one packet."""
    socket.send_fds(end, [json.dumps(message).encode()], descriptors or [])


def receive(end: socket.socket, flags: int = 0) -> tuple[Message, list[int]] | None:
    """The next packet, or None when the other end is gone."""
    data, descriptors, _, _ = socket.recv_fds(end, MAX_BYTES, MAX_DESCRIPTORS, flags)
    if not data:
        return None
    message: Message = json.loads(data)
    return message, descriptors
