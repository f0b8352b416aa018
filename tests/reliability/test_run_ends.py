"""What a run that has ended does no more: it stops nothing, and waits for no reply to a call."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from belljar.egress.network import Network
from belljar.engines.base import OnEvent, Sample, Spec
from belljar.execution import Execution
from belljar.host.budget import Budget
from belljar.host.run import Run
from belljar.packages.environment import Environment, default_python
from belljar.service.base import RunRequest

DONE = {
    "type": "done", "id": 1, "status": "ok", "error": None, "value": None, "exit_code": 0, "files": [],
    "truncated": False, "interrupted": False,
}  # fmt: skip
CALL = {"type": "call", "id": 1, "call_id": 7, "name": "f", "args": {}}


class Process:
    """A process that makes a call and ends its run when the test says so."""

    alive = True

    def __init__(self) -> None:
        self.network = Network(())
        self.acts: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.is_stopped = asyncio.Event()
        self.is_running = asyncio.Event()
        self.may_end = asyncio.Event()

    def sample(self) -> Sample:
        return Sample()

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def request(self, _: dict[str, Any], on_event: OnEvent) -> dict[str, Any]:
        on_event(CALL)
        self.is_running.set()
        await self.may_end.wait()
        return DONE

    async def interrupt(self) -> None:
        self.acts.append("interrupt")

    async def idle(self) -> None:
        await self.is_stopped.wait()

    async def kill(self) -> None:
        self.acts.append("kill")
        await self.is_stopped.wait()


def made(process: Process) -> Run:
    spec = Spec("run", Environment(default_python()))
    return Run(RunRequest("1"), Execution(), process, spec, Budget(1 << 20))  # type: ignore[arg-type]


def test_an_interrupt_after_the_code_has_ended_does_nothing():
    async def attempt() -> tuple[list[str], list[str]]:
        process = Process()
        run = made(process)
        process.may_end.set()
        await run.execute(("f",), count(1), lambda _: None)
        await run.interrupt()
        await asyncio.sleep(0)
        return process.acts, [run.execution.tool_calls[0]["status"]]

    assert asyncio.run(asyncio.wait_for(attempt(), 30)) == ([], ["unanswered"])


def test_a_run_that_is_cancelled_twice_has_ended_its_calls():
    async def attempt() -> Process:
        process = Process()
        run = made(process)
        executing = asyncio.ensure_future(run.execute(("f",), count(1), lambda _: None))
        await process.is_running.wait()
        calls = run.calls
        assert calls is not None
        for _ in range(3):
            executing.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await executing
        assert run.calls is None
        process.is_stopped.set()
        return process

    process = asyncio.run(asyncio.wait_for(attempt(), 30))
    assert process.acts[0] == "interrupt"
