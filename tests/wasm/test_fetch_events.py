"""The host's side of a request from inside: every Event may be a lie, and what it may cost is bounded."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from belljar import Limits, Policy
from belljar.egress.caps import Caps
from belljar.egress.server import Egress
from belljar.engines.base import Spec
from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.engine import WasmEngine
from belljar.engines.wasm.fetches import LEAST_BYTES, MOST_OPEN, MOST_UNSENT, WINDOW_BYTES, Fetches
from belljar.engines.wasm.process import WasmProcess
from belljar.execution import Denial
from belljar.packages.environment import Environment
from belljar.settings import Settings

ASKED = {"type": "fetch", "fetch": 1, "method": "GET", "url": "http://example.test/", "headers": [], "length": None,
         "redirects": 0}  # fmt: skip


class Process:
    """A process that takes what it is sent, or does not."""

    def __init__(self) -> None:
        self.mail: list[tuple[bytes, int, bytes]] = []
        self.waiting = 0

    def write(self, frame: bytes) -> None:
        length, kind, number = struct.unpack_from(">IcI", frame)
        assert length == len(frame) - 4
        self.mail.append((kind, number, frame[9:]))

    def unsent(self) -> int:
        return self.waiting


class World:
    """Fetches with a process that listens and an egress that allows nothing."""

    def __init__(self) -> None:
        self.process = Process()
        self.given_up: list[str] = []
        self.denials: list[Denial] = []
        self.egress = Egress([], on_denial=self.denials.append)
        self.fetches = Fetches(lambda: self.way_out, self.process, self.given_up.append)  # type: ignore[arg-type]
        self.is_slow = False

    async def way_out(self) -> Egress:
        if self.is_slow:
            await asyncio.sleep(30)
        return self.egress

    def take(self, **fields: Any) -> None:
        self.fetches.take({**ASKED, **fields})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    made.fetches.end()
    await made.egress.close()


LIES: list[dict[str, Any]] = [
    {"fetch": None}, {"fetch": 0}, {"fetch": -1}, {"fetch": 1 << 32}, {"fetch": True}, {"fetch": "1"}, {"fetch": 1.0},
    {"method": None}, {"method": "G" * 33}, {"url": 5}, {"url": "h" * 40_000}, {"url": ["http://example.test/"]},
    {"headers": None}, {"headers": {"a": "b"}}, {"headers": [["a"]]}, {"headers": [["a", 1]]}, {"headers": ["ab"]},
    {"headers": [["a", "b"]] * 257}, {"headers": [["a", "b" * 70_000]]}, {"length": -2}, {"length": "5"},
    {"length": 1 << 60}, {"length": True}, {"redirects": -1}, {"redirects": 21}, {"redirects": None},
]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("lie", LIES, ids=repr)
async def test_a_request_that_no_kernel_of_ours_makes_breaks_the_protocol(world: World, lie: dict[str, Any]):
    with pytest.raises(BrokenProtocol):
        world.take(**lie)
    assert world.process.mail == []


@pytest.mark.anyio
async def test_what_follows_a_request_is_checked_as_well(world: World):
    world.is_slow = True
    world.take(length=-1)
    for event in (
        {"type": "fetch"},
        {"type": "fetch_taken", "count": 1},
        {"type": "fetch_taken", "count": 0},
        {"type": "fetch_taken"},
        {"type": "fetch_body", "data": "?", "last": False},
        {"type": "fetch_body", "data": None, "last": False},
        {"type": "fetch_body", "data": "AAAA", "last": 1},
        {"type": "fetch_body", "data": "A" * (4 * WINDOW_BYTES), "last": False},
    ):
        with pytest.raises(BrokenProtocol):
            world.fetches.take({**ASKED, **event})
    for kind in ("fetch_body", "fetch_taken", "fetch_close"):  # of one that is over, or never was: nobody's fault
        world.fetches.take({"type": kind, "fetch": 99})


@pytest.mark.anyio
async def test_a_body_comes_no_faster_than_it_is_passed_on_however_small_its_pieces(world: World):
    world.is_slow = True
    world.take(length=-1)
    piece = {"type": "fetch_body", "fetch": 1, "data": base64.b64encode(b"x").decode(), "last": False}
    for _ in range(WINDOW_BYTES // LEAST_BYTES):
        world.fetches.take(piece)
    with pytest.raises(BrokenProtocol, match="more of a body"):
        world.fetches.take(piece)


@pytest.mark.anyio
async def test_one_request_more_than_there_may_be_connections_is_a_denial(world: World):
    async def never(name: str, port: int) -> list[str]:
        await asyncio.sleep(30)
        return []

    caps, denials = Caps(connections=2), world.denials
    world.egress = Egress(["example.test"], caps=caps, resolver=never, on_denial=denials.append)
    for number in (1, 2, 3):
        world.take(fetch=number)
    while not world.process.mail:
        await asyncio.sleep(0.01)
    rule = "a sandbox may have 2 connections at once"
    assert denials == [Denial("network", "http://example.test/", rule, "close some first", "egress")]
    message = f"http://example.test/ was refused: {rule}; close some first"
    told = json.dumps({"kind": "refused", "message": message}).encode()
    assert world.process.mail == [(b"F", 3, told)]


@pytest.mark.anyio
async def test_no_more_than_so_many_wait_and_ending_leaves_none(world: World):
    world.is_slow = True
    for number in range(1, MOST_OPEN + 3):
        world.take(fetch=number)
    assert [(kind, number) for kind, number, _ in world.process.mail] == [
        (b"F", MOST_OPEN + 1),
        (b"F", MOST_OPEN + 2),
    ]
    assert "make fewer requests at once" in json.loads(world.process.mail[0][2])["message"]
    world.fetches.end()
    await asyncio.sleep(0.01)
    assert [task for task in asyncio.all_tasks() if "_Fetch" in repr(task)] == []
    world.take(fetch=5000)
    assert len(world.process.mail) == 2


@pytest.mark.anyio
async def test_who_asks_and_does_not_listen_is_given_up(world: World):
    world.process.waiting = MOST_UNSENT + 1
    world.take()
    while not world.process.mail:
        await asyncio.sleep(0.01)
    kind, number, data = world.process.mail[0]
    assert (kind, number, json.loads(data)["kind"]) == (b"F", 1, "refused")
    assert world.given_up == ["the kernel broke the protocol: it asks and does not listen"]


@pytest.mark.anyio
async def test_a_request_that_is_closed_says_no_more(world: World):
    world.is_slow = True
    world.take()
    world.fetches.take({"type": "fetch_close", "fetch": 1})
    await asyncio.sleep(0.01)
    assert world.process.mail == []
    world.is_slow = False
    world.take()  # the number is free again
    while not world.process.mail:
        await asyncio.sleep(0.01)
    assert "network is off" in json.loads(world.process.mail[0][2])["message"]


@pytest.mark.anyio
async def test_a_request_before_there_is_a_sandbox_breaks_the_protocol(world: World):
    world.way_out = None  # type: ignore[assignment, method-assign]
    with pytest.raises(BrokenProtocol):
        world.take()


@pytest.mark.anyio
async def test_a_pooled_process_is_given_the_way_out_of_the_sandbox_it_becomes(world: World):
    environment = Environment(Path(sys.executable), None, "none")
    process = WasmProcess(_no_launch, environment, Limits())
    engine = WasmEngine(Settings.load(), None)
    spec = Spec("id", environment, policy=Policy(network=["example.test"]), egress=world.way_out)
    assert await engine.settle(process, spec)
    assert process.egress == world.way_out
    await engine.close()


async def _no_launch(*_: object) -> Any:
    raise AssertionError("it is not started here")
