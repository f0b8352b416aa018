"""asyncio under WebAssembly: its own loop with nothing but time to wait for, and the same answers as natively."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from belljar import Policy, Sandbox

SETUP = "import asyncio\nasync def after(x, s=0.02):\n    await asyncio.sleep(s)\n    return x\nlog = []"
CELLS = {
    "gather": "await asyncio.gather(after(1, 0.04), after(2), after(3))",
    "in the order of time": (
        "async def note(x, s):\n    log.append(await after(x, s))\n"
        "await asyncio.gather(note('late', 0.2), note('soon', 0.02))\nlog"
    ),
    "a timeout of wait_for": "try:\n    await asyncio.wait_for(after(1, 30), 0.05)\nexcept TimeoutError:\n    print('late')",
    "asyncio.timeout": "async with asyncio.timeout(0.05):\n    await after(1, 30)",
    "run once": "asyncio.run(after(1))",
    "run twice": "[asyncio.run(after(1)), asyncio.run(after(2))]",
    "run inside a running loop": "async def outer():\n    return asyncio.run(after(1))\nawait outer()",
    "run with a debug loop": "asyncio.run(after(1), debug=True)",
    "a runner": "with asyncio.Runner() as runner:\n    both = [runner.run(after(1)), runner.run(after(2))]\nboth",
    "a loop of one's own": (
        "loop = asyncio.new_event_loop()\ntry:\n    value = loop.run_until_complete(after(4))\nfinally:\n    loop.close()\nvalue"
    ),
    "a task group": (
        "async with asyncio.TaskGroup() as group:\n    tasks = [group.create_task(after(n)) for n in range(3)]\n"
        "[task.result() for task in tasks]"
    ),
    "an error in a task group": (
        "async def fail():\n    raise ValueError('bad')\n"
        "try:\n    async with asyncio.TaskGroup() as group:\n        group.create_task(fail())\n        group.create_task(after(1, 30))\n"
        "except* ValueError as errors:\n    print(errors.exceptions)"
    ),
    "a queue": (
        "queue = asyncio.Queue(1)\nasync def put():\n    for n in range(3): await queue.put(n)\n"
        "task = asyncio.create_task(put())\n[await queue.get() for _ in range(3)]"
    ),
    "lock, event, semaphore": (
        "lock, event, places = asyncio.Lock(), asyncio.Event(), asyncio.Semaphore(2)\n"
        "asyncio.get_running_loop().call_later(0.02, event.set)\n"
        "async with lock, places:\n    await event.wait()\nevent.is_set()"
    ),
    "cancel": (
        "task = asyncio.create_task(after(1, 30))\nawait asyncio.sleep(0)\ntask.cancel()\n"
        "try:\n    await task\nexcept asyncio.CancelledError:\n    print('cancelled')"
    ),
    "an async generator": "async def count():\n    for n in range(3):\n        yield await after(n, 0)\n[n async for n in count()]",
    "no loop outside of await": "asyncio.get_running_loop()",
    "a result of an awaited error": "async def fail():\n    return {}['x']\nawait fail()",
}


@pytest.fixture(scope="module")
def both(bare: Sandbox, native: None) -> Iterator[tuple[Sandbox, Sandbox]]:
    with Sandbox("native", policy=Policy(packages="none")) as other:
        bare.run(SETUP)
        other.run(SETUP)
        yield bare, other


@pytest.mark.parametrize("what", CELLS)
def test_it_behaves_as_natively(both: tuple[Sandbox, Sandbox], what: str):
    ours, theirs = (sandbox.run(f"log.clear()\n{CELLS[what]}", timeout=10) for sandbox in both)
    told = [
        (ran.status, ran.value, ran.stdout, (ran.error.name, ran.error.value, ran.error.line) if ran.error else None)
        for ran in (ours, theirs)
    ]
    assert told[0] == told[1]


def test_a_task_left_behind_goes_on_when_the_next_cell_waits(bare: Sandbox):
    bare.run(SETUP)
    first = bare.run(
        "async def tick():\n    for n in range(3):\n        await asyncio.sleep(0.03)\n        print('tick', n)\n"
        "task = asyncio.create_task(tick())\nawait asyncio.sleep(0.01)"
    )
    second = bare.run("await task\ntask.done()")
    assert (first.stdout, second.stdout, second.value) == ("", "tick 0\ntick 1\ntick 2\n", True)


def test_waiting_in_asyncio_takes_no_processor(bare: Sandbox):
    ran = bare.run("import asyncio\nawait asyncio.gather(*(asyncio.sleep(0.6) for _ in range(50)))")
    assert 0.6 <= ran.usage.wall_s < 10
    assert ran.usage.cpu_s < 0.5


def test_what_asyncio_would_give_to_a_thread_is_done_on_the_spot(bare: Sandbox):
    assert bare.run("import asyncio\nawait asyncio.to_thread(sum, [1, 2])").value == 3
    assert bare.run("await asyncio.to_thread(int, 'x')").error.name == "ValueError"
    assert bare.run("import asyncio\nawait asyncio.sleep(0.01)\n'on'").value == "on"


def test_a_wait_that_nothing_can_end_is_an_error_at_once(bare: Sandbox):
    ran = bare.run("import asyncio\nawait asyncio.get_running_loop().create_future()", timeout=20)
    assert (ran.status, ran.error.name) == ("error", "RuntimeError")
    assert "would never end" in ran.error.value
    assert bare.run("import asyncio\nawait asyncio.sleep(0.01)\n'on'").value == "on"


def test_a_promise_of_javascript_is_not_awaited_and_says_so(bare: Sandbox):
    ran = bare.run(
        "from pyodide.code import run_js\nawait run_js('new Promise((done) => setTimeout(done, 10))')", timeout=20
    )
    assert ran.status == "error"
    assert "promises" in ran.stderr
    assert bare.run("1 + 1").value == 2
