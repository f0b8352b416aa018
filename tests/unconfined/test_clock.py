"""The clock that a test moves."""

from __future__ import annotations

import asyncio

from belljar.testing import Clock


def test_it_stands_still_until_it_is_moved():
    clock = Clock(100.0)
    assert clock.now() == clock.now() == 100.0
    clock.advance(2.5)
    assert clock.now() == 102.5


def test_it_wakes_those_whose_time_has_come_and_no_others():
    async def see() -> list[str]:
        clock, woken = Clock(0.0), []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(name)

        short, long = asyncio.ensure_future(sleeper("short", 10)), asyncio.ensure_future(sleeper("long", 20))
        await asyncio.sleep(0)
        clock.advance(9)
        await asyncio.sleep(0.01)
        assert woken == []
        await asyncio.to_thread(clock.advance, 1)
        await short
        assert woken == ["short"]
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)
        clock.advance(100)
        await asyncio.sleep(0.01)
        return woken

    assert asyncio.run(see()) == ["short"]
