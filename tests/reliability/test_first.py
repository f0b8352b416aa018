"""The Request that a kernel finds waiting: answered before the sandbox is handed over, or there is none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests import probe
from tests.engines import required
from tests.reliability.traces import eventually, traces

from belljar import Limits, Policy, StartFailed, compose
from belljar.engines.base import KernelProcess, Spec
from belljar.engines.native import process as native_process
from belljar.engines.wasm import process as wasm_process
from belljar.settings import Settings

BARE = Policy(packages="none")
ENDS = {
    "native": "import os; os._exit(3)",
    "wasm": "from pyodide.code import run_js; run_js('for (;;) globalThis.hoard = [globalThis.hoard, new Array(1e7).fill(1)]')",
}


@pytest.fixture(params=["native", "wasm"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with required():
        yield request.param


@pytest.fixture
def host() -> Iterator[compose.LocalHost]:
    made = compose.LocalHost(replace(Settings.load(), pool_size=0, reserve_size=0))
    yield made
    made.close()


def started(host: compose.LocalHost, name: str, request: dict[str, Any], limits: Limits | None = None) -> KernelProcess:
    async def start() -> KernelProcess:
        engine = await host.host.registry.choose(name)
        environment = await host.host.environment(host.host.registry.installer(name), BARE)
        return await engine.start(Spec("first", environment, limits or Limits()))

    with pytest.MonkeyPatch.context() as patch:
        for each in (native_process, wasm_process):
            patch.setattr(each, "configuration", lambda *_: request)
        return host.background.wait(asyncio.wait_for(start(), 60))


def run(code: str) -> dict[str, Any]:
    return {"type": "run", "count": 1, "code": code, "env": {}}


def test_it_is_answered_before_the_sandbox_is_there(host: compose.LocalHost, engine: str):
    process = started(host, engine, run("made = 6 * 7"))
    done = host.background.wait(process.request(run("made"), lambda _: None))
    host.background.wait(process.close())
    assert done["value"] == 42


def test_a_kernel_that_ends_meanwhile_is_no_sandbox_and_leaves_nothing(host: compose.LocalHost, engine: str):
    host.background.wait(started(host, engine, run("1")).close())
    before = traces()
    with pytest.raises(StartFailed, match=r"while it was being set up|did not come up"):  # its end may be heard first
        started(host, engine, run(ENDS[engine]))
    assert eventually(lambda: traces().is_within(before))


def test_a_native_one_that_crashes_or_breaks_the_protocol_is_told_at_once(host: compose.LocalHost):
    with required():
        host.background.wait(host.host.registry.choose("native"))
    with pytest.raises(StartFailed, match=r"SIGSEGV|segmentation|did not come up"):
        started(host, "native", run("import os; os.kill(os.getpid(), 11)"))
    with pytest.raises(StartFailed, match="broke the protocol"):
        started(host, "native", run("import os, time; os.write(3, b'\\xff' * 8); time.sleep(30)"))


def test_what_ends_it_is_told_also_when_it_came_with_the_hello(host: compose.LocalHost):
    with required():
        host.background.wait(host.host.registry.choose("native"))
    with probe.slow_kernel_channels(0.5), pytest.raises(StartFailed, match="broke the protocol"):
        started(host, "native", run("import os, time; os.write(3, b'\\xff' * 8); time.sleep(30)"))


def test_what_is_printed_meanwhile_is_not_kept(host: compose.LocalHost):
    with required():
        host.background.wait(host.host.registry.choose("native"))
    page = os.sysconf("SC_PAGE_SIZE")

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as facts:
            return int(facts.read().split()[1]) * page

    before = resident()
    process = started(host, "native", run("for _ in range(300): print('x' * 1_000_000)"))
    host.background.wait(process.close())
    assert resident() - before < 150_000_000
