"""The host's own checks of calls, without a sandbox: what is refused, what ends a sandbox, and what is written down."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from belljar.engines.transport.frames import BrokenProtocol
from belljar.events import Call
from belljar.execution import Execution
from belljar.host.calls import BURST, MOST_IGNORANT, MOST_RECORDED, PER_SECOND, Calls
from belljar.service.base import Reply
from belljar_kernel.protocol import MOST_CALLS, OPEN_CALLS


class World:
    """The calls of a run, what went inside, and what the caller heard."""

    def __init__(self, tools: tuple[str, ...] = ("f",)) -> None:
        self.execution = Execution()
        self.sent: list[dict[str, Any]] = []
        self.heard: list[Call] = []
        self.now = 100.0
        self.is_unhurried = False  # a second passes between two calls
        self.calls = Calls(tools, count(1), self.execution, self.sent.append, self.heard.append, lambda: self.now)

    def call(self, number: int, name: str = "f") -> None:
        self.now += self.is_unhurried
        self.calls.take({"type": "call", "id": 1, "call_id": number, "name": name, "args": {}})

    def refusal(self) -> str:
        error = self.sent[-1]["error"]
        assert error["name"] == "CallRefused"
        return str(error["value"])


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("number", [0, -1, 1 << 53, 10**400], ids=lambda value: str(value)[:20])
def test_a_number_that_no_kernel_of_ours_gives_breaks_the_protocol(world: World, number: int):
    with pytest.raises(BrokenProtocol):
        world.call(number)
    assert (world.sent, world.heard, world.execution.tool_calls) == ([], [], [])


def test_the_number_of_an_open_call_cannot_be_used_again_before_its_reply(world: World):
    world.call(7)
    with pytest.raises(BrokenProtocol, match="one number"):
        world.call(7)
    world.calls.reply(Reply(world.heard[0]["call_id"], 1))
    world.call(7)
    assert [call["call_id"] for call in world.heard] == [1, 2]


def test_callers_get_numbers_of_the_hosts_own(world: World):
    world.call(1 << 52)
    assert world.heard[0]["call_id"] == 1
    world.calls.reply(Reply(1 << 52, "guessed"))
    assert world.sent == []
    world.calls.reply(Reply(1, "value"))
    assert world.sent == [{"type": "reply", "call_id": 1 << 52, "value": "value"}]
    world.calls.reply(Reply(1, "again"))
    assert len(world.sent) == 1


def test_a_flood_of_open_calls_is_refused_beyond_the_bound(world: World):
    for number in range(1, OPEN_CALLS + 11):
        world.call(number)
    assert len(world.heard) == OPEN_CALLS
    assert len(world.sent) == 10
    assert f"{OPEN_CALLS} calls are open" in world.refusal()


def test_one_run_may_make_so_many_calls_and_one_that_does_not_heed_errors_ends(world: World):
    world.is_unhurried = True
    for number in range(1, MOST_CALLS + 1):
        world.call(number, "unknown")
    assert "no call that this sandbox was given" in world.refusal()
    world.call(1)
    assert "one run may make 100,000 calls" in world.refusal()
    for number in range(1, MOST_IGNORANT):
        world.call(number)
    with pytest.raises(BrokenProtocol, match="calls went on"):
        world.call(1)
    assert world.heard == []
    assert len(world.execution.tool_calls) == MOST_RECORDED


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, Any]]:
    """What a loop would do later: the delay, and the act."""
    planned: list[tuple[float, Any]] = []

    class Loop:
        def call_later(self, delay: float, act: Any, *args: Any) -> None:
            planned.append((delay, lambda: act(*args)))

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    return planned


def test_refusals_that_come_too_fast_are_sent_later_and_none_after_the_end(
    world: World, later: list[tuple[float, Any]]
):
    for number in range(1, BURST + 3):
        world.call(number, "unknown")
    assert len(world.sent) == BURST
    assert [round(delay * PER_SECOND) for delay, _ in later] == [1, 2]
    with pytest.raises(BrokenProtocol, match="one number"):
        world.call(BURST + 2, "unknown")
    later[0][1]()
    assert world.sent[-1]["call_id"] == BURST + 1
    world.calls.end()
    later[1][1]()
    assert len(world.sent) == BURST + 1


def test_a_refusal_repeats_only_so_much_of_the_names_there_are():
    world = World(tuple(f"{'x' * 90}{number}" for number in range(256)))
    world.call(1, "unknown")
    assert len(world.refusal()) < 600
    assert world.refusal().endswith("…")


def test_calls_that_come_too_fast_are_passed_on_later_and_none_after_the_end(
    world: World, later: list[tuple[float, Any]]
):
    for number in range(1, BURST + 1):
        world.call(number)
        world.calls.reply(Reply(number, None))
    assert (len(world.heard), later) == (BURST, [])
    world.call(1)
    world.call(2)
    assert [round(delay * PER_SECOND) for delay, _ in later] == [1, 2]
    later[0][1]()
    assert len(world.heard) == BURST + 1
    world.calls.end()
    later[1][1]()
    assert len(world.heard) == BURST + 1
    world.now += 1
    world.call(3)
    assert len(world.heard) == BURST + 2


def test_calls_that_are_open_at_the_end_are_written_down_as_unanswered(world: World):
    world.call(1)
    world.call(2)
    world.calls.reply(Reply(1, error=("KeyError", "x")))
    world.calls.end()
    world.calls.reply(Reply(2, "late"))
    rows = world.execution.tool_calls
    assert [(row["call_id"], row["name"], row["status"]) for row in rows] == [(1, "f", "error"), (2, "f", "unanswered")]
    assert world.sent == [{"type": "reply", "call_id": 1, "error": {"name": "KeyError", "value": "x"}}]


def test_names_are_cut_where_they_are_written_down(world: World):
    world.call(1, "x" * 100_000)
    assert world.execution.tool_calls[0]["name"] == "x" * 100
    assert len(world.refusal()) < 300
