"""Callers that leave at the wrong moment: nothing crosses from one run to another, nothing is lost in silence, nothing stays."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests import probe
from tests.reliability.traces import eventually, traces

from belljar import AsyncSandbox, Policy, SandboxError

BARE = Policy(packages="none")


@pytest.fixture(autouse=True)
def host_of_its_own(native: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("BELLJAR_POOL_SIZE", "BELLJAR_RESERVE_SIZE"):  # nothing comes and goes but what a test does
        monkeypatch.setenv(name, "0")
    with probe.with_no_host():
        yield


async def leave(act: Any, after_s: float) -> None:
    """Begin something and cancel it a little later."""
    task = asyncio.ensure_future(act)
    await asyncio.sleep(after_s)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_run_left_during_its_grace_says_nothing_into_the_next():
    async def main() -> None:
        async with AsyncSandbox(policy=BARE) as sandbox:
            await sandbox.run("y = 5")
            stubborn = (
                "import time\ntry: time.sleep(10)\nexcept KeyboardInterrupt: time.sleep(0.3)\nprint('OLD', flush=True)"
            )
            await leave(sandbox.run(stubborn, timeout=1), 1.15)
            execution = await sandbox.run("y")
            assert (execution.text, execution.stdout, execution.state) == ("5", "", "kept")

    asyncio.run(main())


def test_runs_left_at_any_moment_keep_the_state_and_the_order():
    async def main() -> None:
        async with AsyncSandbox(policy=BARE) as sandbox:
            await sandbox.run("kept = 41")
            for number in range(60):
                await leave(sandbox.run(f"print('left {number}')"), random.random() * 0.003)
                execution = await sandbox.run("kept + 1")
                assert (execution.text, execution.stdout, execution.state) == ("42", "", "kept"), number

    asyncio.run(main())


def test_a_reset_or_revival_that_was_left_half_way_is_done_again_and_told():
    async def main() -> None:
        async with AsyncSandbox(policy=BARE, env={"MARK": "yes"}) as sandbox:
            for _ in range(20):
                await sandbox.run("import os; os.kill(os.getpid(), 9)")
                await leave(sandbox.run("x = 1"), 0.001 + random.random() * 0.012)
                execution = await sandbox.run("import os; os.environ.get('MARK')")
                assert execution.value == "yes"
                await leave(sandbox.reset(), random.random() * 0.012)
                execution = await sandbox.run("import os; os.environ.get('MARK')")
                assert execution.value == "yes"

    asyncio.run(main())


def test_a_revival_that_was_left_is_still_told_to_the_next_run():
    async def main() -> None:
        async with AsyncSandbox(policy=BARE) as sandbox:
            await sandbox.run("x = 1")
            await sandbox.run("import os; os.kill(os.getpid(), 9)")
            assert await sandbox.variables() == []
            assert (await sandbox.run("'x' in globals()")).state == "reset"
            assert (await sandbox.run("1")).state == "kept"

    asyncio.run(main())


def test_closing_while_it_restarts_and_closes_that_were_left_leave_nothing():
    async def main() -> None:
        await (await AsyncSandbox(policy=BARE).start()).close()
        before = traces()
        for _ in range(15):
            sandbox = await AsyncSandbox(policy=BARE).start()
            reset = asyncio.ensure_future(sandbox.reset())
            await asyncio.sleep(random.random() * 0.01)
            await leave(sandbox.close(), random.random() * 0.004)
            await sandbox.close()
            (outcome,) = await asyncio.gather(reset, return_exceptions=True)
            assert outcome is None or isinstance(outcome, SandboxError)
        assert await asyncio.to_thread(eventually, lambda: traces().processes <= before.processes)
        after = traces()
        assert after.groups <= before.groups
        assert after.descriptors <= before.descriptors

    asyncio.run(main())


def test_half_a_character_stays_in_its_run():
    async def main() -> None:
        async with AsyncSandbox(policy=BARE) as sandbox:
            await sandbox.run("import os; os.write(1, b'\\xe2\\x82')")
            assert (await sandbox.run("print('x')")).stdout == "x\n"

    asyncio.run(main())
