"""The link to a kernel behind the native walls: its process, and what its side says and hands over before the hello."""

from __future__ import annotations

import contextlib
import os
import signal
import socket

from belljar.engines.base import Event
from belljar.engines.transport.link import READ_BYTES, Link

MOST_DESCRIPTORS = 4


class JailedLink(Link):
    """A link with the pidfd of the kernel, its pid inside, and the listener that hears of `unshare`."""

    def __init__(self, channel: socket.socket, streams: dict[str, int], theirs: list[int]) -> None:
        super().__init__(channel, streams, theirs)
        self.pidfd = -1
        self.listeners: list[int] = []  # handed on to the keeper
        self.pid_inside: int | None = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the kernel, if it is there."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def receive(self) -> bytes:
        """Before the kernel is there, descriptors may come along; from then on anybody inside may send anything."""
        if self.hello.done() or self.pid_inside is not None:
            return super().receive()
        data, descriptors, _, _ = socket.recv_fds(self.channel, READ_BYTES, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        self.listeners += descriptors
        return data

    def dispatch(self, event: Event) -> None:
        """Before the hello, the kernel's side says where it is."""
        if event["type"] == "walls" and self.pid_inside is None and not self.hello.done():
            self.pid_inside = int(event["pid"])
        else:
            super().dispatch(event)

    def close(self) -> None:
        """Let go of every descriptor."""
        super().close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        self.close_listeners()

    def close_listeners(self) -> None:
        """Let go of the listener, once the keeper has it."""
        for descriptor in self.listeners:
            os.close(descriptor)
        self.listeners = []
