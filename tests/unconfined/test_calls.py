"""Calls out of a run of a sandbox without walls."""

from __future__ import annotations

from belljar.events import Call
from belljar.execution import Execution
from belljar.service.base import LIBRARY, Reply, RunRequest, SandboxRequest
from belljar.testing import UnconfinedHost

CODE = "from belljar_kernel.calls import call\ncall('add', {'numbers': [1, 2, 3]})"


def test_a_call_goes_to_the_caller_of_the_run_and_its_answer_comes_back(host: UnconfinedHost):
    calls: list[Call] = []

    async def run() -> Execution:
        service = host.service
        made = await service.create(LIBRARY, SandboxRequest(tools=("add",)))
        async for item in service.run(LIBRARY, made.id, RunRequest(CODE, live=True)):
            if isinstance(item, Execution):
                return item
            if item["type"] == "call":
                calls.append(item)
                await service.answer_call(LIBRARY, made.id, Reply(item["call_id"], sum(item["args"]["numbers"])))
        raise AssertionError("a run without an Execution")

    ran = host.background.wait(run())
    assert (ran.status, ran.value, [call["name"] for call in calls]) == ("ok", 6, ["add"])
