"""The host's side of a request from inside: every Event may be a lie, and what it may cost is bounded."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from belljar import Policy
from belljar.egress.caps import Caps
from belljar.egress.server import Egress
from belljar.engines.base import Spec
from belljar.engines.options import WarmStart
from belljar.engines.registry import Registry
from belljar.engines.transport.exchange import MOST_UNSENT
from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.builtins import Builtins
from belljar.engines.wasm.fetches import LEAST_BYTES, MOST_OPEN, WINDOW_BYTES, Fetches
from belljar.engines.wasm.python import PythonExchange
from belljar.engines.wasm.replies import Replies
from belljar.execution import Denial
from belljar.settings import Settings
from belljar_kernel.protocol import FETCH_PIECE_BYTES

OPEN = {"method": "GET", "url": "http://example.test/", "headers": [], "length": None, "redirects": 0}


class Process:
    """A process that takes what it is sent."""

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []

    def write(self, frame: bytes) -> None:
        (length,) = struct.unpack_from(">I", frame)
        assert length == len(frame) - 4
        text, _, data = frame[4:].partition(b"\n")
        self.replies.append({**json.loads(text), "data": data})


class World:
    """Fetches with a process that listens and an egress that allows nothing."""

    def __init__(self) -> None:
        self.process = Process()
        self.denials: list[Denial] = []
        self.egress = Egress([], on_denial=self.denials.append)
        replies = Replies(self.process.write)
        self.builtins = Builtins(Fetches(self.way_out, replies), None)
        self.is_slow = False
        self._calls = 0

    async def way_out(self) -> Any:
        if self.is_slow:
            await asyncio.sleep(30)
        return self.egress

    def call(self, step: str, call_id: object = None, **args: Any) -> int:
        """Make a call as a kernel does; its number."""
        self._calls += 1
        number = self._calls if call_id is None else call_id
        self.builtins.take({"type": "call", "id": 1, "call_id": number, "name": f"fetch.{step}", "args": args})
        return self._calls

    def open(self, **fields: Any) -> int:
        return self.call("open", **{**OPEN, **fields})

    async def reply(self, call_id: int) -> dict[str, Any]:
        async with asyncio.timeout(20):
            while True:
                for reply in self.process.replies:
                    if reply["call_id"] == call_id:
                        return reply
                await asyncio.sleep(0.01)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.builtins.end()
    await made.egress.close()


LIES: list[dict[str, Any]] = [
    {"method": None}, {"method": "G" * 33}, {"url": 5}, {"url": "h" * 40_000}, {"url": ["http://example.test/"]},
    {"headers": None}, {"headers": {"a": "b"}}, {"headers": [["a"]]}, {"headers": [["a", 1]]}, {"headers": ["ab"]},
    {"headers": [["a", "b"]] * 257}, {"headers": [["a", "b" * 70_000]]}, {"length": -2}, {"length": "5"},
    {"length": 1 << 60}, {"length": True}, {"redirects": -1}, {"redirects": 21}, {"redirects": None},
    {"call_id": 0}, {"call_id": 1 << 60},
]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("lie", LIES, ids=repr)
async def test_a_request_that_no_kernel_of_ours_makes_breaks_the_protocol(world: World, lie: dict[str, Any]):
    with pytest.raises(BrokenProtocol):
        world.open(**lie)
    assert world.process.replies == []


@pytest.mark.anyio
async def test_what_follows_a_request_is_checked_as_well(world: World):
    world.is_slow = True
    fetch = world.open(length=-1)
    with pytest.raises(BrokenProtocol, match="one number"):
        world.call("open", call_id=fetch, **OPEN)
    for args in (
        {"data": "?", "last": False},
        {"data": None, "last": False},
        {"data": "AAAA", "last": 1},
        {"data": "A" * (4 * FETCH_PIECE_BYTES), "last": False},
    ):
        with pytest.raises(BrokenProtocol):
            world.call("write", fetch=fetch, **args)
    for step in ("head", "read"):
        world.call(step, fetch=fetch)
        with pytest.raises(BrokenProtocol, match="before the last one"):
            world.call(step, fetch=fetch)
    with pytest.raises(BrokenProtocol, match="where there are none"):
        world.builtins.take({"type": "call", "id": 1, "call_id": 99, "name": "mount.close", "args": {"handle": 1}})


@pytest.mark.anyio
async def test_a_step_of_a_request_that_is_over_or_never_was_is_an_error(world: World):
    world.call("close", fetch=99)
    for step, more in {"head": {}, "read": {}, "write": {"data": "", "last": False}}.items():
        reply = await world.reply(world.call(step, fetch=99, **more))
        assert reply["error"] == {"name": "closed", "value": "this request is over"}
        for number in (None, "1", [1], True):
            with pytest.raises(BrokenProtocol):
                world.call(step, fetch=number, **more)


@pytest.mark.anyio
async def test_a_body_comes_no_faster_than_it_is_passed_on_however_small_its_pieces(world: World):
    world.is_slow = True
    fetch = world.open(length=-1)
    piece = {"fetch": fetch, "data": base64.b64encode(b"x").decode(), "last": False}
    for _ in range(WINDOW_BYTES // LEAST_BYTES):
        assert (await world.reply(world.call("write", **piece)))["value"] == {"more": True}
    before = len(world.process.replies)
    world.call("write", **piece)  # it is not replied to before others have gone on
    assert len(world.process.replies) == before
    with pytest.raises(BrokenProtocol, match="before the last one"):
        world.call("write", **piece)


@pytest.mark.anyio
async def test_no_body_is_kept_for_a_request_that_has_failed(world: World):
    fetch = world.open(length=-1)
    assert (await world.reply(fetch))["error"]["name"] == "refused"
    data = base64.b64encode(bytes(FETCH_PIECE_BYTES)).decode()
    tracemalloc.start()
    try:
        for _ in range(100):
            reply = await world.reply(world.call("write", fetch=fetch, data=data, last=False))
            assert reply["value"] == {"more": False}
        assert tracemalloc.get_traced_memory()[0] < 20 * FETCH_PIECE_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.anyio
async def test_one_request_more_than_there_may_be_connections_is_a_denial(world: World):
    async def never(name: str, port: int) -> list[str]:
        await asyncio.sleep(30)
        return []

    caps, denials = Caps(connections=2), world.denials
    world.egress = Egress(["example.test"], caps=caps, resolver=never, on_denial=denials.append)
    *_, third = [world.open() for _ in range(3)]
    reply = await world.reply(third)
    rule = "a sandbox may have 2 connections at once"
    assert denials == [Denial("network", "http://example.test/", rule, "close some first", "egress")]
    message = f"http://example.test/ was refused: {rule}; close some first"
    assert reply["error"] == {"name": "refused", "value": message}
    assert len(world.process.replies) == 1
    for step in ("head", "read"):
        assert (await world.reply(world.call(step, fetch=third)))["error"]["value"] == message


@pytest.mark.anyio
async def test_no_more_than_so_many_wait_and_ending_leaves_none(world: World):
    world.is_slow = True
    numbers = [world.open() for _ in range(MOST_OPEN + 2)]
    assert [reply["call_id"] for reply in world.process.replies] == numbers[-2:]
    assert "make fewer requests at once" in world.process.replies[0]["error"]["value"]
    world.builtins.end()
    await asyncio.sleep(0.01)
    assert [task for task in asyncio.all_tasks() if "_Fetch" in repr(task)] == []
    world.open()
    assert len(world.process.replies) == 2


@pytest.mark.anyio
async def test_requests_that_have_failed_make_room_for_others(world: World):
    for number in [world.open() for _ in range(MOST_OPEN)]:
        assert (await world.reply(number))["error"]["name"] == "refused"
    assert (await world.reply(world.open()))["error"]["name"] == "refused"


@pytest.mark.anyio
async def test_a_request_that_is_closed_says_no_more(world: World):
    world.is_slow = True
    fetch = world.open()
    world.call("close", fetch=fetch)
    await asyncio.sleep(0.01)
    assert world.process.replies == []
    world.is_slow = False
    world.call("open", call_id=fetch, **OPEN)  # the number is free again
    assert "network is off" in (await world.reply(fetch))["error"]["value"]


@pytest.mark.anyio
async def test_a_response_is_read_in_pieces_and_no_more_of_it_waits_here_than_fits(world: World):
    response = Response(40)
    world.egress = response  # type: ignore[assignment]
    fetch = world.open()
    assert (await world.reply(fetch))["value"] == {}
    head = await world.reply(world.call("head", fetch=fetch))
    assert head["value"] == {"status": 200, "reason": "OK", "url": OPEN["url"], "headers": [["a", "b"]]}
    await asyncio.sleep(0.05)
    assert response.taken * len(PIECE) < WINDOW_BYTES + 2 * len(PIECE)
    body = b""
    while True:
        reply = await world.reply(world.call("read", fetch=fetch))
        assert len(reply["data"]) <= FETCH_PIECE_BYTES
        body += reply["data"]
        if reply["value"]["end"]:
            break
    assert body == PIECE * 40
    assert (await world.reply(world.call("read", fetch=fetch)))["error"]["name"] == "closed"


PIECE = b"\n{}" * 20_000


class Response:
    """An egress whose every response has so many pieces."""

    status, reason, url, headers = 200, "OK", OPEN["url"], [("a", "b")]

    def __init__(self, pieces: int) -> None:
        self.left, self.taken = pieces, 0

    async def fetch(self, *_: object, on_connect: Callable[[], None], **__: object) -> Response:
        on_connect()
        return self

    async def close(self) -> None:
        """Nothing to do."""

    async def __aenter__(self) -> Response:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to do."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.left:
            self.left -= 1
            self.taken += 1
            yield PIECE


@pytest.mark.anyio
async def test_a_pooled_process_is_given_the_way_out_of_the_sandbox_it_becomes():
    registry = Registry(Settings.load())
    engine = registry.engine("wasm")
    assert isinstance(engine, WarmStart)
    environment = await asyncio.to_thread(registry.installer("wasm").environment, Policy(packages="none"))
    process = await engine.start_ahead(Spec("ahead", environment))
    try:
        before = await process.network.egress()
        spec = Spec("id", environment, policy=Policy(packages="none", network=["127.0.0.1:1"]))
        assert await engine.reconfigure(process, spec)
        assert await process.network.egress() is not before
        code = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:1/')"
        await process.request({"type": "run", "count": 1, "code": code, "env": {}}, process.network.note_event)
        assert process.network.take_denials() == []  # it was allowed to try
        other = code.replace("127.0.0.1:1", "127.0.0.1:2")
        await process.request({"type": "run", "count": 2, "code": other, "env": {}}, process.network.note_event)
        assert [denial.target for denial in process.network.take_denials()] == ["127.0.0.1:2"]
    finally:
        await process.close()
        await registry.close()


@pytest.mark.anyio
async def test_a_process_that_does_not_read_the_replies_it_asked_for_is_ended():
    class Full(Process):
        waiting = MOST_UNSENT

        def unsent(self) -> int:
            return self.waiting

    process, exchange = Full(), PythonExchange()
    exchange.connect(process)  # type: ignore[arg-type]
    replies = Replies(exchange.send_frame)
    replies.fail(1, "closed", "this request is over")
    assert not exchange.ended.done()
    process.waiting += 1
    replies.fail(2, "closed", "this request is over")
    assert "wait to be read" in (exchange.broken or "")
