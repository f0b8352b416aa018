"""The requests that a Python without sockets has under way: the egress makes them. What is asked is untrusted."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from belljar.engines.base import Event
from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.runner import Runner
from belljar.errors import SandboxError

if TYPE_CHECKING:
    from belljar.egress.server import Egress

WayOut = Callable[[], Awaitable["Egress"]]

FETCH_EVENTS = frozenset({"fetch", "fetch_body", "fetch_taken", "fetch_close"})
MOST_OPEN = 1024  # that the egress has not refused yet: it counts connections, and allows fewer
PIECE_BYTES = 128 << 10
WINDOW_BYTES = 512 << 10  # of a body, on their way: each side sends no more before the other has taken some
LEAST_BYTES = 1 << 10  # that a piece counts for, however small it is
MOST_UNSENT = 48 << 20  # to a process that does not read
MOST_REDIRECTS = 20
LONGEST_URL, LONGEST_METHOD, MOST_HEADERS, HEADERS_BYTES = 32 << 10, 32, 256, 64 << 10
STALLED_S = 60  # a response that nobody reads is given up
HIGHEST = (1 << 32) - 1

_MAIL = struct.Struct(">IcI")  # the length of a frame, and in it the kind and the number of the fetch
CONNECTED, HEAD, DATA, END, FAILED, TAKEN = b"C", b"H", b"D", b"E", b"F", b"T"


class Fetches:
    """All of one Python, which `runner` leads to. It is given up when it reads nothing of what it asked for."""

    def __init__(self, way_out: Callable[[], WayOut | None], runner: Runner, give_up: Callable[[str], None]) -> None:
        self._way_out = way_out
        self._runner = runner
        self._give_up = give_up
        self._open: dict[int, _Fetch] = {}
        self._is_ended = False

    def take(self, event: Event) -> None:
        """One Event about a fetch.

        Raises:
            BrokenProtocol: when no kernel of ours would send it.
        """
        number = event.get("fetch")
        if type(number) is not int or not 0 < number <= HIGHEST:
            raise BrokenProtocol("a fetch without a number")
        if event["type"] == "fetch":
            if not self._is_ended:
                self._begin(number, event)
        elif fetch := self._open.get(number):  # else it has failed, and inside that is not known yet
            fetch.take(event)

    def end(self) -> None:
        """Leave everything: the Python is gone."""
        self._is_ended = True
        for fetch in self._open.values():
            fetch.task.cancel()

    def _begin(self, number: int, event: Event) -> None:
        if number in self._open:
            raise BrokenProtocol("two fetches with one number")
        way_out = self._way_out()
        if way_out is None:
            raise BrokenProtocol("a fetch before there is code that could ask for it")
        fetch = _Fetch(event, lambda kind, data: self._send(number, kind, data))
        if len(self._open) >= MOST_OPEN:
            return fetch.fail("unreachable", f"{fetch.url[:300]} was not asked for: make fewer requests at once")
        self._open[number] = fetch
        fetch.task = asyncio.get_running_loop().create_task(fetch.run(way_out))
        fetch.task.add_done_callback(lambda _: self._open.pop(number, None))
        return None

    def _send(self, number: int, kind: bytes, data: bytes) -> None:
        if self._is_ended:
            return
        self._runner.write(_MAIL.pack(5 + len(data), kind, number) + data)
        if self._runner.unsent() > MOST_UNSENT:
            self._give_up("the kernel broke the protocol: it asks and does not listen")


class _Fetch:
    """One request, its body on the way up, and its response on the way down."""

    task: asyncio.Task[None]

    def __init__(self, event: Event, send: Callable[[bytes, bytes], None]) -> None:
        self.method, self.url = _text(event, "method", LONGEST_METHOD), _text(event, "url", LONGEST_URL)
        self.headers = _headers(event.get("headers"))
        self.redirects = _number(event, "redirects", 0, MOST_REDIRECTS)
        length = event.get("length")
        self.length = None if length is None else _number(event, "length", -1, 1 << 53)
        self._send = send
        self._on_the_way = 0
        self._has_room = asyncio.Event()
        self._body: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._body_waiting = 0
        self._is_whole = length is None

    def take(self, event: Event) -> None:
        """More of its body, or what became of the response inside."""
        if event["type"] == "fetch_close":
            self.task.cancel()
        elif event["type"] == "fetch_taken":
            self._on_the_way -= _number(event, "count", 1, self._on_the_way)
            self._has_room.set()
        else:
            self._take_body(event)

    async def run(self, way_out: WayOut) -> None:
        """Make the request and pass the response on, as fast as it is taken."""
        from belljar.egress.refusals import Refused, Unreachable, Untrusted

        try:
            egress = await way_out()
            body = None if self.length is None else self._pieces()
            response = await egress.fetch(
                self.method, self.url, self.headers, body, redirects=self.redirects,
                length=self.length if self.length is not None and self.length >= 0 else None,
                on_connect=lambda: self._send(CONNECTED, b""),
            )  # fmt: skip
            async with response, asyncio.timeout(None) as patience:
                head = {"status": response.status, "reason": response.reason, "url": response.url}
                self._send(HEAD, json.dumps({**head, "headers": response.headers}).encode("ascii"))
                async for piece in response:
                    for start in range(0, len(piece), PIECE_BYTES):
                        await self._pass_on(piece[start : start + PIECE_BYTES], patience)
            self._send(END, b"")
        except Refused as refused:
            self.fail("refused", str(refused))
        except Untrusted as problem:
            self.fail("untrusted", str(problem))
        except (Unreachable, SandboxError) as problem:
            self.fail("unreachable", str(problem))
        except TimeoutError:
            self.fail("unreachable", f"{self.url[:300]} was left: nobody read the response for {STALLED_S} s")
        except Exception as error:
            self.fail("unreachable", f"{self.url[:300]} could not be fetched: {type(error).__name__}")
            raise

    def fail(self, kind: str, message: str) -> None:
        """Tell inside that it came to nothing."""
        self._send(FAILED, json.dumps({"kind": kind, "message": message}).encode("ascii"))

    async def _pass_on(self, piece: bytes, patience: asyncio.Timeout) -> None:
        patience.reschedule(asyncio.get_running_loop().time() + STALLED_S)
        while self._on_the_way + _weight(piece) > WINDOW_BYTES:
            self._has_room.clear()
            await self._has_room.wait()
        patience.reschedule(None)
        self._on_the_way += _weight(piece)
        self._send(DATA, piece)

    def _take_body(self, event: Event) -> None:
        data, last = event.get("data"), event.get("last")
        try:
            text = data if isinstance(data, str) and len(data) <= 2 * WINDOW_BYTES else "?"
            piece = base64.b64decode(text, validate=True)
        except ValueError:
            raise BrokenProtocol("a body that is not base64") from None
        self._body_waiting += _weight(piece)
        if self._is_whole or self._body_waiting > WINDOW_BYTES or type(last) is not bool:
            raise BrokenProtocol("more of a body than was asked for")
        self._is_whole = last
        if piece:
            self._body.put_nowait(piece)
        if last:
            self._body.put_nowait(None)

    async def _pieces(self) -> AsyncIterator[bytes]:
        while (piece := await self._body.get()) is not None:
            yield piece
            self._body_waiting -= _weight(piece)
            self._send(TAKEN, _weight(piece).to_bytes(4, "big"))


def _weight(piece: bytes) -> int:
    """What a piece counts for: many small ones take room, too."""
    return max(len(piece), LEAST_BYTES)


def _text(event: Event, name: str, longest: int) -> str:
    text = event.get(name)
    if not isinstance(text, str) or len(text) > longest:
        raise BrokenProtocol(f"a fetch without a {name}")
    return text


def _number(event: Event, name: str, least: int, most: int) -> int:
    number = event.get(name)
    if type(number) is not int or not least <= number <= most:
        raise BrokenProtocol(f"a fetch with a {name} that cannot be")
    return number


def _headers(given: object) -> list[tuple[str, str]]:
    if not isinstance(given, list) or len(given) > MOST_HEADERS:
        raise BrokenProtocol("a fetch without headers")
    headers = []
    for pair in given:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise BrokenProtocol("a fetch with a header that is none")
        headers.append((pair[0], pair[1]))
    if sum(len(name) + len(value) for name, value in headers) > HEADERS_BYTES:
        raise BrokenProtocol("a fetch with more headers than there may be")
    return headers
