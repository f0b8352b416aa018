"""The host's end of a kernel on descriptors: one socket for frames, two pipes for its streams."""

from __future__ import annotations

import array
import codecs
import contextlib
import fcntl
import os
import select
import socket
import termios
from typing import Self

from belljar.engines.transport.exchange import Exchange

READ_BYTES = 1 << 16


class Link(Exchange):
    """Requests out, Events and output in. What was printed before an Event is taken before it."""

    def __init__(self, channel: socket.socket, streams: dict[str, int], theirs: list[int]) -> None:
        super().__init__(self._flush)
        self.channel = channel
        self.streams = streams
        self.theirs = (
            theirs  # the other ends: channel, standard output, standard error; closed once the kernel has them
        )
        self.decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in streams}
        self._unsent = bytearray()
        self._is_held_up = False
        self._poll = select.poll()
        channel.setblocking(False)
        self.loop.add_reader(channel.fileno(), self._on_channel)
        for name, descriptor in streams.items():
            os.set_blocking(descriptor, False)
            self.loop.add_reader(descriptor, self._read_stream, name)
            self._poll.register(descriptor, select.POLLIN)

    @classmethod
    def make(cls, theirs: contextlib.ExitStack) -> Self:
        """A socket and two pipes; the ends for the kernel are closed with the stack, ours if one cannot be made."""
        with contextlib.ExitStack() as failed:
            ours, channel = socket.socketpair()
            failed.callback(ours.close)
            theirs.callback(channel.close)
            streams, ends = {}, [channel.fileno()]
            for name in ("stdout", "stderr"):
                reader, writer = os.pipe()
                failed.callback(os.close, reader)
                theirs.callback(os.close, writer)
                streams[name] = reader
                ends.append(writer)
            link = cls(ours, streams, ends)
            failed.pop_all()
        return link

    def prepare(self) -> None:
        """What the streams have before a Request does not belong to it."""
        self.drain()
        for decoder in self.decoders.values():  # half a character that one Request left is not for the next
            decoder.reset()

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

    def end(self, reason: str | None) -> None:
        """The channel is over; `reason` when the kernel broke the protocol."""
        if not self.ended.done():
            self.loop.remove_reader(self.channel.fileno())
            self.loop.remove_writer(self.channel.fileno())
            self._is_held_up = False
            self._unsent.clear()
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

    def receive(self) -> bytes:
        """What the channel has now; nothing when the other end is closed."""
        return self.channel.recv(READ_BYTES)

    def unsent(self) -> int:
        """How many bytes the kernel has not taken yet."""
        return len(self._unsent)

    def _flush(self, data: bytes = b"") -> None:
        """Send what the kernel takes, and the rest when it reads: it cannot hold up the host."""
        if self.ended.done():
            return
        self._unsent += data
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
            data = self.receive()
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drain()
            self.end(None)
            return
        self.take(data)

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
