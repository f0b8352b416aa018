"""Places and a queue with a bound."""

from __future__ import annotations

import asyncio

import pytest

from belljar import HostBusy
from belljar.host import admission
from belljar.host.admission import Admission


def test_places_are_given_in_the_order_of_asking_and_the_queue_is_bounded():
    async def use() -> list[int]:
        asked: list[str] = []
        doors = Admission(1, 2, lambda: asked.append("room"))
        got: list[int] = []

        async def one(number: int) -> None:
            await doors.enter()
            got.append(number)
            await asyncio.sleep(0)
            doors.leave()

        await doors.enter()
        waiting = [asyncio.ensure_future(one(number)) for number in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HostBusy, match="try again") as busy:
            await doors.enter()
        assert busy.value.retry_after_s > 0
        assert (doors.waiting, asked) == (2, ["room", "room"])
        doors.leave()
        await asyncio.gather(*waiting)
        await doors.enter()
        return got

    assert asyncio.run(use()) == [0, 1]


def test_whoever_gives_up_leaves_no_place_taken(monkeypatch: pytest.MonkeyPatch):
    async def use() -> None:
        doors = Admission(1, 5, lambda: None)
        await doors.enter()
        waiting = [asyncio.ensure_future(doors.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        doors.leave()  # to the second
        waiting[1].cancel()  # in the very moment in which it has it
        await asyncio.wait_for(waiting[2], 5)
        doors.leave()
        await asyncio.wait_for(doors.enter(), 5)
        monkeypatch.setattr(admission, "WAIT_S", 0.01)
        with pytest.raises(HostBusy, match="none was closed"):
            await doors.enter()
        assert doors.waiting == 0

    asyncio.run(use())


def test_no_bound_is_no_bound():
    async def use() -> None:
        doors = Admission(0, 0, lambda: None)
        for _ in range(100):
            await doors.enter()
        for _ in range(100):
            doors.leave()

    asyncio.run(use())
