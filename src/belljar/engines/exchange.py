"""One Request at a time with a kernel, and its Events as they come. All that arrives is untrusted."""

from __future__ import annotations

import asyncio

from belljar.engines.base import Event, OnEvent, ignore
from belljar.engines.channel import BrokenProtocol, FrameReader


class Exchange:
    """What the host knows of an open Request. How frames travel is the engine's."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[Event] = self.loop.create_future()
        self.ended: asyncio.Future[str | None] = self.loop.create_future()
        self.open_id = 0
        self.on_event: OnEvent | None = None
        self.done: asyncio.Future[Event | None] | None = None  # None: the kernel ended instead
        self._waiter: asyncio.Future[Event | None] | None = None  # who may leave; the answer is taken all the same
        self._reader = FrameReader()

    def open(self, number: int, on_event: OnEvent) -> asyncio.Future[Event | None]:
        """A Request goes out; the future has its final Event, and may be cancelled without harm to the answer."""
        self.open_id, self.on_event = number, on_event
        self.done, self._waiter = self.loop.create_future(), self.loop.create_future()
        if self.ended.done():
            self._answer(None)
        return self._waiter

    def abandon(self) -> None:
        """Nobody waits for the open Request any more: take its answer all the same, for it will come."""
        self.on_event = ignore if self.done is not None and not self.done.done() else None

    def end(self, reason: str | None) -> None:
        """The channel is over; `reason` when the kernel broke the protocol."""
        if not self.ended.done():
            self.ended.set_result(reason)
        self._answer(None)

    def take(self, data: bytes) -> None:
        """Bytes from the kernel."""
        if self.ended.done():
            return
        try:
            events = self._reader.feed(data)
            self.before_events()
            for event in events:
                self.dispatch(event)
        except BrokenProtocol as failure:
            self.end(f"the kernel broke the protocol: {failure}")

    def _answer(self, event: Event | None) -> None:
        for future in (self.done, self._waiter):
            if future is not None and not future.done():
                future.set_result(event)

    def before_events(self) -> None:
        """Some Events are complete; an engine may have to look elsewhere first."""

    def is_open(self, event: Event) -> bool:
        """Whether an Event answers the open Request."""
        is_waiting = self.on_event is not None and self.done is not None and not self.done.done()
        return is_waiting and event["id"] == self.open_id

    def dispatch(self, event: Event) -> None:
        """One Event.

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
            self.open_id = 0
            self._answer(event)
        elif event["type"] in ("stdout", "stderr", "result", "state", "denial", "call"):
            self.on_event(event)
        else:
            raise BrokenProtocol(f"an unexpected {event['type']}")
