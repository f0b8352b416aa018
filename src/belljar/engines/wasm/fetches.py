"""The requests that a Python without sockets has under way: the egress makes them. What is asked is untrusted."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.replies import Replies
from belljar.errors import SandboxError
from belljar_kernel.protocol import FETCH_PIECE_BYTES

if TYPE_CHECKING:
    from belljar.egress.server import Egress

Args = dict[str, Any]
WayOut = Callable[[], Awaitable["Egress"]]

MOST_OPEN = 1024  # that the egress has not refused yet: it counts connections, and allows fewer
WINDOW_BYTES = 512 << 10  # of a body that waits here, in either direction
LEAST_BYTES = 1 << 10  # that a piece counts for, however small it is
MOST_REDIRECTS = 20
LONGEST_URL, LONGEST_METHOD, MOST_HEADERS, HEADERS_BYTES = 32 << 10, 32, 256, 64 << 10
STALLED_S = 60  # a response that is not read is given up


class Fetches:
    """All fetches of a Python. The number of a fetch is that of the call which opened it."""

    def __init__(self, way_out: WayOut, replies: Replies) -> None:
        self._way_out = way_out
        self._replies = replies
        self._open: dict[int, _Fetch] = {}
        self._is_ended = False

    def take(self, step: str, call_id: int, args: Args) -> None:
        """One call about a fetch.

        Raises:
            BrokenProtocol: when no kernel of ours would make it.
        """
        if self._is_ended:
            return
        if step == "open":
            self._begin(call_id, args)
            return
        fetch = self._open.get(args["fetch"])
        if step == "close":
            if fetch is not None:
                self._leave(fetch)
        elif fetch is not None:
            fetch.take(step, call_id, args)
        else:
            self._replies.fail(call_id, "closed", "this request is over")

    def end(self) -> None:
        """Leave everything: the Python is gone."""
        self._is_ended = True
        for fetch in [*self._open.values()]:
            self._leave(fetch)

    def _begin(self, call_id: int, args: Args) -> None:
        if call_id in self._open:
            raise BrokenProtocol("two fetches with one number")
        fetch = _Fetch(call_id, args, self._replies, lambda: self._open.pop(call_id, None))
        if len(self._open) >= MOST_OPEN:
            self._open = {number: each for number, each in self._open.items() if not each.has_failed}
        if len(self._open) >= MOST_OPEN:
            message = f"{fetch.url[:300]} was not asked for: make fewer requests at once"
            self._replies.fail(call_id, "unreachable", message)
            return
        self._open[call_id] = fetch
        fetch.task = asyncio.get_running_loop().create_task(fetch.run(self._way_out))

    def _leave(self, fetch: _Fetch) -> None:
        self._open.pop(fetch.number, None)
        fetch.task.cancel()


class _Fetch:
    """One request, its body on the way up, and its response on the way down. A step is replied to when it is done."""

    task: asyncio.Task[None]

    def __init__(self, number: int, args: Args, replies: Replies, on_end: Callable[[], object]) -> None:
        self.number = number
        self.method, self.url = _text(args, "method", LONGEST_METHOD), _text(args, "url", LONGEST_URL)
        self.headers = _headers(args["headers"])
        self.redirects = _number(args, "redirects", 0, MOST_REDIRECTS)
        self.length = None if args.get("length") is None else _number(args, "length", -1, 1 << 53)
        self._replies = replies
        self._on_end = on_end  # all of the response was taken
        self._asked = {"open": number}  # the calls that wait for a reply, by their step
        self._is_connected = False
        self._head: dict[str, Any] | None = None
        self._failure: tuple[str, str] | None = None
        self._read = bytearray()
        self._is_read = False  # to the end
        self._has_room = asyncio.Event()
        self._body: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._body_waiting = 0
        self._is_whole = self.length is None

    @property
    def has_failed(self) -> bool:
        """Whether it came to nothing."""
        return self._failure is not None

    @property
    def _is_body_wanted(self) -> bool:
        return self._head is None and self._failure is None

    def take(self, step: str, call_id: int, args: Args) -> None:
        """One more step."""
        if step in self._asked:
            raise BrokenProtocol(f"a {step} of a fetch before the last one was done")
        if step == "write":
            self._take_body(args)
        self._asked[step] = call_id
        self._reply()

    async def run(self, way_out: WayOut) -> None:
        """Make the request, and have the response ready as fast as it is taken."""
        from belljar.egress.refusals import Refused, Unreachable, Untrusted

        try:
            egress = await way_out()
            body = None if self.length is None else self._pieces()
            response = await egress.fetch(
                self.method, self.url, self.headers, body, redirects=self.redirects,
                length=self.length if self.length is not None and self.length >= 0 else None,
                on_connect=self._connected,
            )  # fmt: skip
            async with response, asyncio.timeout(None) as patience:
                self._head = {"status": response.status, "reason": response.reason, "url": response.url,
                              "headers": response.headers}  # fmt: skip
                self._reply()
                async for piece in response:
                    self._read += piece
                    self._reply()
                    await self._until_read(patience)
            self._is_read = True
            self._reply()
        except Refused as refused:
            self._fail("refused", str(refused))
        except Untrusted as problem:
            self._fail("untrusted", str(problem))
        except (Unreachable, SandboxError) as problem:
            self._fail("unreachable", str(problem))
        except TimeoutError:
            late = f"the code read nothing of the response for {STALLED_S} s. Read it to its end, or close it"
            self._fail("unreachable", f"{self.url[:300]} was given up: {late}")
        except Exception as error:
            self._fail("unreachable", f"{self.url[:300]} could not be fetched: {type(error).__name__}")
            raise

    def _connected(self) -> None:
        self._is_connected = True
        self._reply()

    def _fail(self, name: str, message: str) -> None:
        self._failure = (name, message)
        self._read.clear()
        self._body = asyncio.Queue()
        self._reply()

    def _reply(self) -> None:
        """Reply to every step that is done now."""
        for step, call_id in [*self._asked.items()]:
            if (value := self._outcome(step)) is not None:
                del self._asked[step]
                self._replies.reply(call_id, value, value.pop("data", None))
                if value.get("end"):
                    self._on_end()
            elif self._failure is not None:
                del self._asked[step]
                self._replies.fail(call_id, *self._failure)

    def _outcome(self, step: str) -> dict[str, Any] | None:
        """What there is to say to a step; nothing when it has to wait, or the fetch has failed."""
        if step == "open":
            return {} if self._is_connected or self._head is not None else None
        if step == "head":
            return self._head
        if step == "write":
            is_wanted = self._is_body_wanted
            return None if is_wanted and self._body_waiting > WINDOW_BYTES else {"more": is_wanted}
        if not self._read and not self._is_read:
            return None
        piece = bytes(self._read[:FETCH_PIECE_BYTES])
        del self._read[:FETCH_PIECE_BYTES]
        self._has_room.set()
        return {"data": piece, "end": self._is_read and not self._read}

    async def _until_read(self, patience: asyncio.Timeout) -> None:
        """Return when there is room for more."""
        patience.reschedule(asyncio.get_running_loop().time() + STALLED_S)
        while len(self._read) >= WINDOW_BYTES:
            self._has_room.clear()
            await self._has_room.wait()
        patience.reschedule(None)

    def _take_body(self, args: Args) -> None:
        data, last = args["data"], args["last"]
        try:
            piece = base64.b64decode(data if len(data) <= 2 * FETCH_PIECE_BYTES else "?", validate=True)
        except ValueError:
            raise BrokenProtocol("a body that is not base64") from None
        if self._is_whole:
            raise BrokenProtocol("more of a body than was asked for")
        self._is_whole = last
        if not self._is_body_wanted:
            return  # its writer is replied to at once, so what is kept here would have no bound
        self._body_waiting += _weight(piece)
        if piece:
            self._body.put_nowait(piece)
        if last:
            self._body.put_nowait(None)

    async def _pieces(self) -> AsyncIterator[bytes]:
        while (piece := await self._body.get()) is not None:
            yield piece
            self._body_waiting -= _weight(piece)
            self._reply()


def _weight(piece: bytes) -> int:
    """What a piece counts for: many small ones take room, too."""
    return max(len(piece), LEAST_BYTES)


def _text(args: Args, name: str, longest: int) -> str:
    text: str = args[name]
    if len(text) > longest:
        raise BrokenProtocol(f"a fetch with a {name} of {len(text)} characters")
    return text


def _number(args: Args, name: str, least: int, most: int) -> int:
    number: int = args[name]
    if not least <= number <= most:
        raise BrokenProtocol(f"a fetch with a {name} that cannot be")
    return number


def _headers(given: list[Any]) -> list[tuple[str, str]]:
    if len(given) > MOST_HEADERS:
        raise BrokenProtocol(f"a fetch with {len(given)} headers")
    headers = []
    for pair in given:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise BrokenProtocol("a fetch with a header that is none")
        headers.append((pair[0], pair[1]))
    if sum(len(name) + len(value) for name, value in headers) > HEADERS_BYTES:
        raise BrokenProtocol("a fetch with more headers than there may be")
    return headers
