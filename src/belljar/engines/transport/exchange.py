"""Requests to a kernel, each seen through before the next, and their Events. All that arrives is untrusted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from belljar.engines.base import Event, Exit, KernelExited, OnEvent, ignore
from belljar.engines.transport.frames import BrokenProtocol, FrameReader, check_fields, encode
from belljar.errors import StartFailed
from belljar_kernel import digest
from belljar_kernel.protocol import CALL_BYTES, DONE, FRAME_BYTES, OPEN_CALLS, PROTOCOL, REPORTED

KILL_TIMEOUT_S = 5.0  # until the end of a kernel that was killed is known
MOST_UNSENT = OPEN_CALLS * CALL_BYTES + FRAME_BYTES  # to a kernel that does not read; open calls may all be replied to
UNREAD = f"more than {MOST_UNSENT >> 20} MB wait to be read by it, mostly replies to calls that it made"


class Exchange:
    """What the host knows of a kernel. How bytes travel is the engine's: `write` sends them, `take` gets them."""

    def __init__(self, write: Callable[[bytes], None] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.write = write or _drop
        self.hello: asyncio.Future[Event] = self.loop.create_future()
        self.ended: asyncio.Future[str | None] = self.loop.create_future()
        self.open_id = 0
        self._open_kind = ""
        self.on_event: OnEvent | None = None
        self.done: asyncio.Future[Event | None] | None = None  # None: the kernel ended instead
        self._waiter: asyncio.Future[Event | None] | None = None  # may be cancelled; the answer is taken anyway
        self._reader = FrameReader()
        self._requests = 0

    async def came_up(self) -> bool:
        """Wait for the kernel's hello and check it. False when the kernel ended first.

        Raises:
            StartFailed: when it is another kernel than this Belljar's.
        """
        await asyncio.wait((self.hello, self.ended), return_when=asyncio.FIRST_COMPLETED)
        if not self.hello.done():
            return False
        hello = self.hello.result()
        if hello.get("protocol") != PROTOCOL or hello.get("digest") != digest():
            raise StartFailed("the kernel inside is not the one that this Belljar brought; clear the cache folder")
        return True

    async def request(self, request: dict[str, Any], on_event: OnEvent, end: Callable[[], Awaitable[Exit]]) -> Event:
        """Send a Request and see it through. `end` ends a kernel that did not answer, and says how it ended.

        Raises:
            KernelExited: when the kernel ended first, or broke the protocol.
        """
        try:
            done = await self.ask(request, on_event)
            if done is None:
                ended = KernelExited(await end())
                self.drain()  # the last that it wrote belongs to this Request
                raise ended
        except asyncio.CancelledError:
            self.abandon()
            raise
        except BaseException:
            self.on_event = None
            raise
        self.on_event = None
        return done

    def ask(self, request: dict[str, Any], on_event: OnEvent) -> asyncio.Future[Event | None]:
        """Send a Request; the future has its final Event, and may be cancelled without harm to the answer.

        Raises:
            ValueError, TypeError: when the Request is not plain JSON data; then none is open.
        """
        frame = encode({**request, "id": self._requests + 1})
        self.prepare()
        self._requests += 1
        self.open_id, self._open_kind, self.on_event = self._requests, request["type"], on_event
        self.done, self._waiter = self.loop.create_future(), self.loop.create_future()
        if self.ended.done():
            self._answer(None)
        self.write(frame)
        return self._waiter

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; never waits."""
        self.send_frame(encode(message))

    def send_frame(self, frame: bytes) -> None:
        """Send a message that is a frame already. A kernel that does not read what it asked for is ended."""
        self.write(frame)
        if self.unsent() > MOST_UNSENT:
            self.end(f"the kernel broke the protocol: {UNREAD}")

    def unsent(self) -> int:
        """How many bytes the kernel has not taken yet."""
        return 0

    def prepare(self) -> None:
        """A Request is about to be sent: let go of what came before it, where that comes another way."""

    def abandon(self) -> None:
        """The caller has left the open Request: take its answer anyway, for it will come."""
        self.on_event = ignore if self.done is not None and not self.done.done() else None

    async def idle(self) -> None:
        """Return when no Request is open."""
        if self.done is not None:
            await asyncio.wait((self.done,))

    def end(self, reason: str | None) -> None:
        """The channel is over; `reason` when the kernel broke the protocol."""
        if not self.ended.done():
            self.ended.set_result(reason)
        self._answer(None)

    @property
    def broken(self) -> str | None:
        """How the kernel broke the protocol, if that was its end."""
        return self.ended.result() if self.ended.done() else None

    def take(self, data: bytes) -> None:
        """Bytes from the kernel."""
        if self.ended.done():
            return
        try:
            events = self._reader.feed(data)
            self.drain()
            for event in events:
                self.dispatch(event)
        except BrokenProtocol as failure:
            self.end(f"the kernel broke the protocol: {failure}")

    def _answer(self, event: Event | None) -> None:
        for future in (self.done, self._waiter):
            if future is not None and not future.done():
                future.set_result(event)

    def _check_done(self, done: Event) -> None:
        """Look at the fields that the answer has. A Request that failed has others, and may lack all of them."""
        fields = DONE.get(self._open_kind, {})
        check_fields(done, {name: types for name, types in fields.items() if name in done})

    def drain(self) -> None:
        """Take what was written before these Events, where it comes another way."""

    def is_open(self, event: Event) -> bool:
        """Whether an Event answers the open Request."""
        is_waiting = self.on_event is not None and self.done is not None and not self.done.done()
        return is_waiting and event["id"] == self.open_id

    def dispatch(self, event: Event) -> None:
        """One Event. An engine that has more of them looks at its own first.

        Raises:
            BrokenProtocol: when nothing asked for it.
        """
        if self.ended.done():
            return
        if event["type"] == "hello" and not self.hello.done():
            self.hello.set_result(event)
        elif not self.is_open(event) or self.on_event is None:
            raise BrokenProtocol("an event that answers no request")
        elif event["type"] == "done":
            self._check_done(event)
            self.open_id = 0
            self._answer(event)
        elif event["type"] in REPORTED:
            self.on_event(event)
        else:
            raise BrokenProtocol(f"an unexpected {event['type']}")


async def exit_facts(exit: asyncio.Future[Exit] | None, exchange: Exchange | None) -> Exit:
    """How a kernel ended: what is seen of it outside, and the protocol that it broke."""
    if exit is None:
        return Exit(broken="it never started")
    await asyncio.wait((exit,), timeout=KILL_TIMEOUT_S)
    seen = exit.result() if exit.done() else Exit(broken="it stopped answering")
    return replace(seen, broken=(exchange and exchange.broken) or seen.broken)


def _drop(data: bytes) -> None:
    """Send nothing: there is no way to the kernel yet, or any more."""
    del data
