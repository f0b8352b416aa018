"""A kernel that does not answer `configure` is ended, and does not hold up the start of a sandbox or a change of it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.native import lab

from belljar import FileError, Limits, StartFailed
from belljar.engines import setup
from belljar.engines.base import Event, Exit, Spec, ignore
from belljar.engines.native.process import NativeProcess
from belljar.engines.transport import seat as seats
from belljar.engines.transport.exchange import Exchange
from belljar.engines.transport.link import Link
from belljar.engines.transport.seat import Seat
from belljar.packages.environment import Environment, default_python

LIMIT_S = 0.3


class Stuck(Seat[Link]):
    """A seat whose kernels come up and answer nothing."""

    ends = 0
    is_torn_down = False

    async def bring_up(self) -> None:
        with contextlib.ExitStack() as theirs:
            self.kernel = Link.make(theirs)
            self.theirs = theirs.pop_all()

    async def kill(self) -> None:
        if self.kernel is not None and not self.kernel.ended.done():
            self.ends += 1
            self.kernel.close()
            self.theirs.close()

    async def exit_facts(self) -> Exit:
        return Exit(signal=signal.SIGKILL)

    async def tear_down(self) -> None:
        self.is_torn_down = True


@pytest.mark.parametrize("act", [Stuck.start, Stuck.restart])
def test_a_start_ends_a_kernel_that_does_not_take_its_configuration(
    act: Callable[[Stuck], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(setup, "CONFIGURE_TIMEOUT_S", LIMIT_S)

    async def attempt() -> Stuck:
        seat = Stuck(Spec("stuck", Environment(default_python())), {})
        with pytest.raises(StartFailed, match=r"did not take its configuration within 0\.3 s"):
            await act(seat)
        await seat.idle()
        assert not seat.alive
        return seat

    seat = asyncio.run(asyncio.wait_for(attempt(), 30))
    assert seat.ends == 1
    assert seat.is_torn_down is (act is Stuck.start)


@pytest.mark.parametrize("error", [{"name": "ValueError", "value": "no such variable"}, "no such variable"])
def test_a_configuration_that_fails_is_a_failed_start_with_its_text(error: object):
    kills: list[bool] = []

    async def answered() -> Event:
        return {"type": "done", "id": 1, "error": error}

    async def kill() -> None:
        kills.append(True)

    with pytest.raises(StartFailed, match="no such variable"):
        asyncio.run(setup.see_configured(answered(), kill, Limits()))
    assert kills == [True]


@pytest.mark.parametrize("next_act", ["file", "configure", "provide"])
def test_what_follows_a_file_act_whose_caller_left_ends_a_kernel_that_does_not_answer(
    next_act: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(seats, "ASK_TIMEOUT_S", LIMIT_S)

    async def attempt() -> None:
        seat = Stuck(Spec("stuck", Environment(default_python())), {})
        await seat.bring_up()
        left = asyncio.create_task(seat.workspace.delete("file"))
        await asyncio.sleep(LIMIT_S / 10)
        left.cancel()
        await asyncio.wait((left,))
        if next_act == "file":
            with pytest.raises(FileError, match="did not answer"):
                await seat.workspace.delete("file")
        elif next_act == "configure":
            with pytest.raises(StartFailed):
                await seat.configure()
        else:
            await seat.provide(seat.spec.environment)
        assert seat.ends == 1

    asyncio.run(asyncio.wait_for(attempt(), 30))


def test_a_request_that_cannot_be_sent_is_not_open():
    async def attempt() -> None:
        exchange = Exchange()
        with pytest.raises(ValueError, match="not JSON compliant"):
            exchange.ask({"type": "run", "code": float("nan")}, ignore)
        await exchange.idle()
        assert exchange.open_id == 0

    asyncio.run(asyncio.wait_for(attempt(), 30))


def test_a_native_kernel_that_does_not_take_another_configuration_is_ended(
    native: None, monkeypatch: pytest.MonkeyPatch
):
    async def attempt() -> None:
        async with lab.engine() as engine:
            process = await engine.start(lab.spec())
            assert isinstance(process, NativeProcess)
            assert process.kernel is not None
            process.kernel.signal(signal.SIGSTOP)
            monkeypatch.setattr(setup, "CONFIGURE_TIMEOUT_S", LIMIT_S)
            with pytest.raises(StartFailed, match="did not take its configuration"):
                await process.reconfigure(replace(process.spec, env={"A": "b"}))
            assert not process.alive
            await process.close()

    asyncio.run(asyncio.wait_for(attempt(), 120))
