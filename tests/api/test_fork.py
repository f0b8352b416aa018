"""`fork` on every engine: the same acts and the same state, whether memory is shared or a checkpoint carries it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from belljar import AsyncSandbox, Sandbox, SandboxClosed, SandboxError


@pytest.fixture(scope="module", params=["native", "wasm"])
def parent(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with some state."""
    request.getfixturevalue("native")
    with Sandbox(request.param, env={"WHO": "parent"}) as sandbox:
        sandbox.run(
            "import os, math\nrows = [1, 2]\ndef total(): return math.fsum(rows)\nopen('a.txt', 'w').write('a')"
        )
        yield sandbox


def test_forks_try_different_ways_and_none_disturbs_another(parent: Sandbox):
    forks = parent.fork(2 if parent.engine == "native" else 1)
    try:
        for number, fork in enumerate(forks, 10):
            ran = fork.run(f"rows.append({number}); open('a.txt', 'w').write('{number}'); total(), os.environ['WHO']")
            assert ran.value == [3.0 + number, "parent"]
            assert ran.state == ("kept" if parent.engine == "native" else "restored")
            assert (ran.execution_count, fork.engine, ran.sandbox_id) == (2, parent.engine, fork.id)
            assert fork.run("open('a.txt').read()").value == str(number)
        assert parent.run("total(), open('a.txt').read()").value == [3.0, "a"]
    finally:
        for fork in forks:
            fork.close()


def test_one_without_a_state_cannot_be_forked():
    with Sandbox("native") as sandbox:
        sandbox.run("import os; os.kill(os.getpid(), 9)")
        with pytest.raises(SandboxError, match="no state"):
            sandbox.fork()
        sandbox.close()
        with pytest.raises(SandboxClosed):
            sandbox.fork()


def test_a_busy_sandbox_is_forked_after_its_run():
    async def act() -> list[object]:
        async with AsyncSandbox("native") as sandbox:
            await sandbox.run("x = 0")
            running = asyncio.create_task(sandbox.run("import time; time.sleep(0.5); x = 1"))
            await asyncio.sleep(0.1)
            async with (await sandbox.fork())[0] as fork:
                assert (await running).status == "ok"
                return [(await fork.run("x")).value, (await fork.run("x = 2; x")).value, (await sandbox.run("x")).value]

    assert asyncio.run(act()) == [1, 2, 1]
