"""A call out of a run and back: the code inside asks, and the caller of the run replies at once."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from belljar import Execution, Policy, compose
from belljar.service.base import LIBRARY, Reply, RunRequest, SandboxRequest
from belljar.settings import Settings
from benchmarks.measure import Contestant, Effort, Row, Target, in_turns
from benchmarks.ours import ENGINE, WASM, checked

CALLS = 50  # in a run; its value is the median of them
CODE = f"""
import statistics, time
from belljar_kernel.calls import call
def milliseconds():
    began = time.perf_counter()
    call("echo", {{"number": 1}})
    return (time.perf_counter() - began) * 1000
statistics.median(milliseconds() for _ in range({CALLS}))
"""
WARM_UPS = 10  # runs: V8 compiles again, and better, what is called often


def measure(effort: Effort, stage: ExitStack) -> Row:
    """From the call to its value, as the code inside sees it; what the caller does meanwhile is nothing."""
    entrants = [_contestant(ENGINE, "belljar", 1.0, stage), _contestant(WASM, "belljar, wasm", 3.0, stage)]
    return Row("call", "a call out of a run, and its reply", in_turns(entrants, effort))


def _contestant(engine: str, name: str, limit: float, stage: ExitStack) -> Contestant:
    here = compose.LocalHost(replace(Settings.load(), pool_size=0))
    stage.callback(here.close)
    service, wait = here.service, here.background.wait
    request = SandboxRequest(engine=engine, tools=("echo",), policy=Policy(packages="none"))
    sandbox = wait(service.create(LIBRARY, request)).id

    async def run() -> Execution:
        async for item in service.run(LIBRARY, sandbox, RunRequest(CODE, live=True)):
            if isinstance(item, Execution):
                return item
            if item["type"] == "call":
                await service.answer_call(LIBRARY, sandbox, Reply(item["call_id"], item["args"]))
        raise RuntimeError("the run had no end")

    def once() -> float:
        return float(checked(wait(run())).value)

    for _ in range(WARM_UPS):
        once()
    return Contestant(name, once, True, Target(limit), 3)
