"""The host's end of one kernel process: its channel, its two streams, and its end. All that arrives is untrusted."""

from __future__ import annotations

import array
import asyncio
import codecs
import contextlib
import fcntl
import os
import select
import socket
import termios
from typing import Any

from belljar.engines.base import Event, OnEvent
from belljar.engines.channel import encode
from belljar.engines.exchange import Exchange

READ_BYTES = 1 << 16


class Link(Exchange):
    """Requests out, Events and output in."""

    def __init__(self, channel: socket.socket, streams: dict[str, int], theirs: list[int]) -> None:
        super().__init__()
        self.channel = channel
        self.streams = streams
        self.theirs = theirs  # the other ends, in the order in which a zygote wants them; gone once it has them
        self.pidfd = -1
        self.decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in streams}
        self.listeners: list[int] = []  # hears of `unshare` inside; handed on to the keeper
        self.pid_inside: int | None = None
        self._unsent = bytearray()
        self._is_held_up = False
        self._poll = select.poll()
        channel.setblocking(False)
        self.loop.add_reader(channel.fileno(), self._on_channel)
        for name, descriptor in streams.items():
            os.set_blocking(descriptor, False)
            self.loop.add_reader(descriptor, self._read_stream, name)
            self._poll.register(descriptor, select.POLLIN)

    def send(self, request: dict[str, Any]) -> None:
        """Queue one Request; a kernel that does not read cannot hold up the host."""
        self._unsent += encode(request)
        self._flush()

    def drain(self) -> None:
        """Take from the streams what is in them now."""
        ready = {descriptor for descriptor, _ in self._poll.poll(0)}
        for name, descriptor in self.streams.items() if ready else ():
            left = _waiting(descriptor) if descriptor in ready else 0
            while left > 0:
                got = self._read_stream(name, min(left, READ_BYTES))
                if not got:
                    break
                left -= got

    def ask(self, number: int, request: dict[str, Any], on_event: OnEvent) -> asyncio.Future[Event | None]:
        """Send a Request; the future has its final Event, and may be cancelled without harm to the answer."""
        self.drain()
        for decoder in self.decoders.values():  # half a character that one Request left is not for the next
            decoder.reset()
        answer = self.open(number, on_event)
        self.send({**request, "id": number})
        return answer

    def end(self, reason: str | None) -> None:
        """The channel is over; `reason` when the kernel broke the protocol."""
        if not self.ended.done():
            self.loop.remove_reader(self.channel.fileno())
            self.loop.remove_writer(self.channel.fileno())
            self._is_held_up = False
        super().end(reason)

    def close(self) -> None:
        """Let go of every descriptor."""
        self.end(None)
        for descriptor in self.streams.values():
            self.loop.remove_reader(descriptor)
            self._poll.unregister(descriptor)
            os.close(descriptor)
        self.streams = {}
        self.channel.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        self.close_listeners()

    def close_listeners(self) -> None:
        """Let go of the listener, once the keeper has it."""
        for descriptor in self.listeners:
            os.close(descriptor)
        self.listeners = []

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self.channel.send(self._unsent)]
        except BlockingIOError:
            self.loop.add_writer(self.channel.fileno(), self._flush)
            self._is_held_up = True
            return
        except OSError:
            self._unsent.clear()
        if self._is_held_up:
            self.loop.remove_writer(self.channel.fileno())
            self._is_held_up = False

    def _on_channel(self) -> None:
        try:
            if self.hello.done() or self.pid_inside is not None:  # from here on there may be anybody, sending anything
                data = self.channel.recv(READ_BYTES)
            else:
                data, descriptors, _, _ = socket.recv_fds(self.channel, READ_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
                self.listeners += descriptors
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drain()
            self.end(None)
            return
        self.take(data)

    def before_events(self) -> None:
        """What was printed before an Event is there already: take it first."""
        self.drain()

    def dispatch(self, event: Event) -> None:
        """Before the hello, the kernel's side tells where it is."""
        if event["type"] == "walls" and self.pid_inside is None and not self.hello.done():
            self.pid_inside = event["pid"]
        else:
            super().dispatch(event)

    def _read_stream(self, name: str, size: int = READ_BYTES) -> int:
        try:
            data = os.read(self.streams[name], size)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.loop.remove_reader(self.streams[name])
        text = self.decoders[name].decode(data, final=not data)
        if text and self.on_event is not None:
            self.on_event({"type": name, "id": self.open_id, "text": text})
        return len(data)


def _waiting(pipe: int) -> int:
    """How many bytes are in it."""
    count = array.array("i", [0])
    with contextlib.suppress(OSError, ValueError):
        fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]
