"""Ways to stop: interrupt, a cancelled task, Ctrl-C, close. Each leaves a sandbox that works, or says that it is closed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.reliability.traces import descendants, eventually

from belljar import AsyncSandbox, Sandbox, SandboxClosed, compose
from belljar.engines.base import Event
from belljar.service.base import LIBRARY, SandboxInfo, SandboxRequest

LOOP = "kept = 1\nprint('on', flush=True)\nwhile True: pass"
CHILD = "import subprocess\nkept = 1\nsubprocess.run(['sh', '-c', 'echo on; exec sleep 1234.5'])"
STUBBORN = """
kept, said = 1, False
while True:
    try:
        if not said:
            said = True
            print('on', flush=True)
        sum(range(10**13))  # C code that does not look up
    except KeyboardInterrupt:
        pass  # it came before that line
"""
UNTIL_TOLD = "print('on', flush=True)\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"


class Started:
    """Says when the code inside has begun: by what it prints."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self, event: Event) -> None:
        if event["type"] == "stdout":
            self._event.set()

    def wait(self) -> None:
        assert self._event.wait(30)

    async def wait_async(self) -> None:
        await asyncio.to_thread(self.wait)


@pytest.mark.parametrize("code", [LOOP, CHILD, "kept = 1\nprint('on', flush=True)\nimport time\ntime.sleep(60)"])
def test_interrupt_from_another_thread_keeps_the_state(sandbox: Sandbox, code: str):
    started = Started()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.run, code, on_event=started)
        started.wait()
        sandbox.interrupt()
        ran = running.result(30)
    assert (ran.status, ran.error.code, ran.exit_code, ran.state) == ("cancelled", "CANCELLED", 130, "kept")
    assert sandbox.run("kept").value == 1


def test_code_that_cannot_be_interrupted_is_killed_and_that_is_said(sandbox: Sandbox):
    started = Started()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.run, STUBBORN, on_event=started)
        started.wait()
        sandbox.interrupt()
        ran = running.result(30)
    assert (ran.status, ran.state) == ("cancelled", "reset")
    assert "variables are lost" in ran.error.value
    after = sandbox.run("'kept' in globals()")
    assert (after.value, after.state) == (False, "reset")
    assert "cancelled" in after.state_reason
    assert sandbox.run("1").state == "kept"


def test_interrupt_without_a_run_does_nothing(sandbox: Sandbox):
    sandbox.run("kept = 1")
    sandbox.interrupt()
    ran = sandbox.run("kept")
    assert (ran.status, ran.value, ran.state) == ("ok", 1, "kept")


def test_a_second_run_waits_its_turn(sandbox: Sandbox):
    started = Started()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sandbox.run, UNTIL_TOLD + "\nx = 1", on_event=started)
        started.wait()
        second = pool.submit(sandbox.run, "x + 1", timeout=1)
        time.sleep(1.5)  # longer than the second may run: waiting is not running
        assert not second.done()
        sandbox.files.write("go", "")
        assert (first.result(30).execution_count, second.result(30).execution_count) == (1, 2)
    assert (second.result().status, second.result().value) == ("ok", 2)


def test_interrupt_stops_the_run_at_hand_and_not_the_one_that_waits(sandbox: Sandbox):
    started = Started()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sandbox.run, LOOP, on_event=started)
        started.wait()
        second = pool.submit(sandbox.run, "kept + 1")
        time.sleep(0.1)
        sandbox.interrupt()
        assert (first.result(30).status, second.result(30).status) == ("cancelled", "ok")


@pytest.mark.parametrize("code", [LOOP, CHILD, STUBBORN], ids=["loop", "child", "stubborn"])
def test_a_cancelled_task_stops_its_code_and_the_sandbox_works_on(native: None, code: str):
    async def main() -> None:
        async with AsyncSandbox() as sandbox:
            started = Started()
            task = asyncio.create_task(sandbox.run(code, on_event=started))
            await started.wait_async()
            busy = is_busy(code)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(eventually, lambda: not busy(), 20)
            ran = await sandbox.run("globals().get('kept')")
            assert (ran.status, ran.value) == ("ok", None if code is STUBBORN else 1)
            assert ran.state == ("reset" if code is STUBBORN else "kept")

    asyncio.run(main())


def is_busy(code: str):
    """Whether the code still runs, seen from outside: its child is there, or its processor time grows."""
    if code is CHILD:
        return lambda: any(words(process.pid)[:1] == [b"sleep"] for process in descendants(os.getpid()))

    def grows() -> bool:
        before = ticks()
        time.sleep(0.3)
        return ticks() - before > 15

    return grows


def words(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def ticks() -> int:
    """Processor time of everything that this process started, in hundredths of a second."""
    total = 0
    for process in descendants(os.getpid()):
        try:
            with open(f"/proc/{process.pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total


def test_a_cancelled_run_that_waits_its_turn_never_runs(native: None):
    async def main() -> None:
        async with AsyncSandbox() as sandbox:
            started = Started()
            first = asyncio.create_task(sandbox.run(UNTIL_TOLD, on_event=started))
            await started.wait_async()
            second = asyncio.create_task(sandbox.run("touched = True"))
            await asyncio.sleep(0.1)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            await sandbox.files.write("go", "")
            assert (await first).status == "ok"
            assert (await sandbox.run("'touched' in globals()")).value is False

    asyncio.run(main())


def test_asyncio_timeouts_work(native: None):
    async def run_until_it_has_begun(sandbox: AsyncSandbox) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as timeout:

            def end(event: Event) -> None:
                if event["type"] == "stdout":
                    loop.call_soon_threadsafe(timeout.reschedule, loop.time())

            await sandbox.run(LOOP, on_event=end)

    async def main() -> None:
        async with AsyncSandbox() as sandbox:
            with pytest.raises(TimeoutError):
                await run_until_it_has_begun(sandbox)
            assert (await sandbox.run("kept")).value == 1

    asyncio.run(main())


def test_close_while_running_ends_the_run_with_an_error(sandbox: Sandbox):
    started = Started()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(sandbox.run, LOOP, on_event=started)
        started.wait()
        waiting = pool.submit(sandbox.run, "1")
        time.sleep(0.1)
        sandbox.close()
        for run in (running, waiting):
            with pytest.raises(SandboxClosed):
                run.result(30)


def test_close_twice_is_close(sandbox: Sandbox):
    sandbox.close()
    sandbox.close()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: sandbox.close(), range(8)))


def test_every_act_on_a_closed_sandbox_says_so(sandbox: Sandbox, tmp_path):
    sandbox.close()
    acts = [
        lambda: sandbox.run("1"),
        lambda: list(sandbox.stream("1")),
        sandbox.interrupt,
        sandbox.reset,
        sandbox.variables,
        lambda: sandbox.complete("1"),
        lambda: sandbox.files.write("a", "x"),
        lambda: sandbox.files.read("a"),
        sandbox.files.list,
        lambda: sandbox.files.delete("a"),
    ]
    for act in acts:
        with pytest.raises(SandboxClosed, match="make a new one"):
            act()


def test_an_async_sandbox_that_was_never_started_closes_and_stays_closed():
    async def main() -> None:
        sandbox = AsyncSandbox()
        await sandbox.close()
        with pytest.raises(SandboxClosed):
            await sandbox.run("1")

    asyncio.run(main())


def test_close_while_it_starts_leaves_nothing(native: None, monkeypatch: pytest.MonkeyPatch):
    host = compose.local_host()
    create, is_on, may_go_on = host.service.create, threading.Event(), threading.Event()

    async def slowly(owner: str, request: SandboxRequest) -> SandboxInfo:
        is_on.set()
        await asyncio.to_thread(may_go_on.wait)
        return await create(owner, request)

    async def main() -> str:
        sandbox = AsyncSandbox()
        run = asyncio.create_task(sandbox.run("1"))
        await asyncio.to_thread(is_on.wait)
        close = asyncio.create_task(sandbox.close())
        await asyncio.sleep(0)
        may_go_on.set()
        await close
        with pytest.raises(SandboxClosed):
            await run
        return sandbox.id

    monkeypatch.setattr(host.service, "create", slowly)
    assert host.host.session(LIBRARY, asyncio.run(main())) is None


def test_ctrl_c_ends_a_waiting_script_and_everything_in_it():
    code = f"from belljar import Sandbox\nSandbox().run({LOOP!r}, on_event=lambda event: print('on', flush=True))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"on\n"
        inside = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=8)  # less than a wait that nobody wakes
    assert said.rstrip().endswith(b"KeyboardInterrupt")
    assert inside
    assert eventually(lambda: not any(os.path.exists(f"/proc/{each.pid}") for each in inside))
