"""From anywhere: threads, asyncio, trio, a loop that already runs, and a forked child."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trio

from belljar import AsyncSandbox, Sandbox, SandboxClosed, SandboxError


def test_one_sandbox_is_used_from_many_threads(sandbox: Sandbox):
    sandbox.run("seen = []")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: sandbox.run(f"seen.append({n})"), range(24)))
    assert sandbox.run("sorted(seen) == list(range(24))").value is True


def test_many_threads_have_a_sandbox_each(native: None):
    def work(number: int) -> int:
        with Sandbox() as sandbox:
            sandbox.run(f"x = {number}")
            return sandbox.run("x * 2").value

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == [n * 2 for n in range(24)]


def test_asyncio_runs_several_at_once(native: None):
    async def work(number: int) -> Any:
        async with AsyncSandbox() as sandbox:
            return (await sandbox.run(f"import time; time.sleep(0.3); {number}")).value

    async def main() -> list[Any]:
        return await asyncio.gather(*(work(number) for number in range(6)))

    assert asyncio.run(main()) == list(range(6))


def test_an_async_sandbox_moves_between_loops(native: None):
    sandbox = AsyncSandbox()
    asyncio.run(sandbox.run("x = 1"))
    assert asyncio.run(sandbox.run("x")).value == 1
    asyncio.run(sandbox.close())


def test_first_runs_at_once_start_one_sandbox(native: None):
    async def main() -> None:
        sandbox = AsyncSandbox()
        first, second = await asyncio.gather(sandbox.run("x = 1"), sandbox.run("x"))
        assert (first.execution_count, second.execution_count, second.value) == (1, 2, 1)
        await sandbox.close()

    asyncio.run(main())


def test_async_files_and_the_rest_are_awaited(native: None):
    async def main() -> None:
        async with AsyncSandbox(files={"a.txt": "x"}) as sandbox:
            assert await sandbox.files.read("a.txt") == b"x"
            assert [entry.path for entry in await sandbox.files.list()] == ["a.txt"]
            await sandbox.files.delete("a.txt")
            await sandbox.run("name = 1")
            assert [variable.name for variable in await sandbox.variables()] == ["name"]
            assert [found.text for found in await sandbox.complete("nam")] == ["name"]
            await sandbox.reset()
            assert await sandbox.variables() == []

    asyncio.run(main())


def test_trio_runs_streams_and_cancels(native: None):
    async def main() -> None:
        async with AsyncSandbox() as sandbox:
            assert (await sandbox.run("1 + 1")).value == 2
            items = [item async for item in sandbox.stream("print('a')\n3")]
            assert items[-1].value == 3
            with trio.move_on_after(0.4) as scope:
                await sandbox.run("kept = 1\nwhile True: pass")
            assert scope.cancelled_caught
            assert (await sandbox.run("kept")).value == 1

    trio.run(main)


def test_a_stopped_trio_stream_stops_the_run(native: None):
    async def main() -> None:
        async with AsyncSandbox() as sandbox:
            stream = sandbox.stream("kept = 1\nwhile True: print('tick', flush=True)")
            await anext(stream)
            await stream.aclose()
            with trio.fail_after(10):
                assert (await sandbox.run("kept")).value == 1

    trio.run(main)


def test_the_waiting_face_works_inside_a_running_loop(native: None):
    """As in Jupyter: the cell's code runs within a loop that belongs to somebody else."""

    async def cell() -> Any:
        with Sandbox() as sandbox:
            sandbox.run("x = 20")
            assert [type(item).__name__ for item in sandbox.stream("x + 1")] == ["dict", "Execution"]
            sandbox.files.write("a", "x")
            return sandbox.run("x * 2 + 2").value

    assert asyncio.run(cell()) == 42


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_its_own_host_and_leaves_the_parents_alone(sandbox: Sandbox):
    sandbox.run("x = 'parent'")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=in_a_fork, args=(sandbox, theirs))
    child.start()
    theirs.close()
    assert ours.poll(60)
    assert ours.recv() == ("SandboxClosed", 42)
    child.join(30)
    assert child.exitcode == 0
    assert sandbox.run("x").value == "parent"
    with Sandbox() as another:
        assert another.run("1").value == 1


def in_a_fork(inherited: Sandbox, pipe: Any) -> None:
    try:
        inherited.run("x = 'child'")
        refused = "nothing"
    except SandboxError as error:
        refused = type(error).__name__
    inherited.close()
    with Sandbox() as own:
        pipe.send((refused, own.run("6 * 7").value))


def test_a_forked_child_that_lives_on_does_not_hold_up_the_parents_exit(native: None):
    code = """
import os, time
from belljar import Sandbox
sandbox = Sandbox()
sandbox.run("1")
if os.fork() == 0:
    os.close(1)
    time.sleep(20)
    os._exit(0)
began = time.monotonic()
from belljar import compose
compose.close()
print(time.monotonic() - began < 3)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"True\n")


def test_a_sandbox_of_a_closed_host_says_so_and_the_next_one_works(native: None):
    code = """
from belljar import Sandbox, SandboxClosed, compose
old = Sandbox()
compose.close()
try:
    old.run("1")
except SandboxClosed:
    old.close()
    with Sandbox() as new:
        print(new.run("2").value)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


def test_a_script_that_closes_nothing_ends_cleanly(native: None):
    code = "import os\nfrom belljar import Sandbox\nSandbox().run('1')\nSandbox().stream('1')\nprint(os.getpid())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert not os.path.exists(f"/proc/{done.stdout.strip()}")


def test_closed_is_closed_for_threads_that_wait(sandbox: Sandbox):
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(sandbox.run, "import time; time.sleep(0.2)") for _ in range(4)]
        runs[0].exception(0.5) if runs[0].done() else None
        sandbox.close()
        outcomes = [run.exception(10) for run in runs]
    assert any(isinstance(outcome, SandboxClosed) for outcome in outcomes)
    assert all(outcome is None or isinstance(outcome, SandboxClosed) for outcome in outcomes)
