"""Somebody kills a part: a kernel, a keeper, a zygote, process 1, the whole host. Errors are typed, and what comes next works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests import probe
from tests.reliability.traces import Process, alive, descendants, eventually, own_groups, processes

from belljar import Limits, Sandbox, SandboxError, compose
from belljar.engines.native.jail import Jail
from belljar.host.pool import Pool

LOOP = "print('on', flush=True)\nwhile True: pass"


@pytest.fixture(autouse=True)
def host_of_its_own(native: None) -> Iterator[None]:
    """Each test here has a host to ruin; the sandboxes of other tests are spared."""
    with probe.with_no_host():
        yield


def jail() -> Jail:
    """The jail of ordinary sandboxes, as the engine has it."""
    jails = probe.jails(probe.engine(compose.local_host(), "native"))
    return next(jail for key, jail in jails.items() if key != "bare")


def fill_pool() -> None:
    here = compose.local_host()
    here.background.wait(here.host.pools.ready(probe.engine(here, "native"), compose.base_environment("native")))


def ready(pool: Pool) -> list[Any]:
    """The native processes that a pool keeps ready."""
    return list(probe.ready(pool))


def children(pid: int) -> list[Process]:
    return [process for process in descendants(pid) if process.parent == pid]


def kernel_pid(sandbox: Sandbox) -> int:
    return probe.pid_of(probe.process(sandbox).kernel.pidfd)


def keeper_pid(sandbox: Sandbox) -> int:
    return probe.pid_of(probe.keeper(sandbox).pidfd)


def kill(pid: int) -> None:
    """Kill a process and see it die."""
    victim = processes()[pid]
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not alive(victim))


def works() -> bool:
    with Sandbox("native") as sandbox:
        ran = sandbox.run("6 * 7")
    assert ran.error is None, ran
    return ran.value == 42


def run_and(sandbox: Sandbox, act: Any) -> Any:
    """What a run said, or raised, during which `act` happened."""
    started = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sandbox.run, LOOP, on_event=lambda event: started.set())
        assert started.wait(20)
        act()
        return running.exception(20) or running.result()


def test_a_kernel_killed_during_a_run_is_a_crash():
    with Sandbox("native") as sandbox:
        ran = run_and(sandbox, lambda: os.kill(kernel_pid(sandbox), signal.SIGKILL))
        assert (ran.status, ran.exit_code, ran.state) == ("crashed", 137, "reset")
        assert sandbox.run("1").state == "reset"


def test_a_kernel_killed_between_runs_is_told_by_the_next():
    with Sandbox("native") as sandbox:
        sandbox.run("x = 1; open('kept', 'w').close()")
        kill(kernel_pid(sandbox))
        ran = sandbox.run("'x' in globals()")
        assert (ran.status, ran.value, ran.state) == ("ok", False, "reset")
        assert ran.state_reason
        assert [entry.path for entry in sandbox.files.list()] == ["kept"]


def test_a_kernel_killed_in_the_pool_is_never_handed_out():
    assert works()
    fill_pool()
    for process in ready(probe.pools(compose.local_host())[0]):
        kill(probe.pid_of(process.kernel.pidfd))
    for _ in range(4):
        with Sandbox("native") as sandbox:
            ran = sandbox.run("1")
            assert (ran.status, ran.value) == ("ok", 1)


def test_a_pool_whose_kernels_were_killed_is_full_again_before_anybody_asks():
    assert works()
    fill_pool()
    pool = probe.pools(compose.local_host())[0]
    dead = ready(pool)
    for process in dead:
        kill(probe.pid_of(process.kernel.pidfd))
    assert eventually(lambda: pool.ready == pool.size, 20)
    assert not set(dead) & set(ready(pool))


def test_a_keeper_killed_takes_its_sandbox_and_no_other():
    with Sandbox("native") as sandbox, Sandbox("native") as other:
        other.run("x = 1")
        outcome = run_and(sandbox, lambda: os.kill(keeper_pid(sandbox), signal.SIGKILL))
        assert outcome.status == "crashed"
        ran = sandbox.run("1 + 1")
        assert (ran.status, ran.value, ran.state) == ("ok", 2, "reset")
        assert other.run("x").value == 1
    assert works()


@pytest.mark.parametrize("which", ["bare", "warm"])
def test_a_dead_zygote_is_replaced(which: str):
    assert works()
    fill_pool()
    launched = jail()
    with Sandbox("native") as sandbox:
        sandbox.run("x = 1")
        (init,) = children(launched.process.pid)
        bare, warm = zygotes(init.pid)
        link = launched.bare if which == "bare" else launched.warm
        os.kill((bare if which == "bare" else warm).pid, signal.SIGKILL)
        # What runs while the host hears of it may be told as crashed; nothing that begins afterwards.
        assert eventually(lambda: link.failure is not None)
        for _ in range(6):
            assert works()
        ran = typed(lambda: sandbox.run("globals().get('x')"))
        assert isinstance(ran, SandboxError) or ran.status == "ok"
    assert works()


def zygotes(init: int) -> list[Process]:
    """The bare and the warm zygote: children of process 1 in its own pid namespace (a keeper has another), by age."""
    own = os.readlink(f"/proc/{init}/ns/pid")
    found = [process for process in children(init) if os.readlink(f"/proc/{process.pid}/ns/pid") == own]
    return sorted(found, key=lambda process: process.started)


def typed(act: Any) -> Any:
    try:
        return act()
    except SandboxError as error:
        return error


@pytest.mark.parametrize("part", ["launcher", "process 1"])
def test_a_dead_jail_is_replaced_and_its_sandboxes_start_over_and_say_so(part: str):
    with Sandbox("native") as sandbox, Sandbox("native") as idle:
        launched = jail()
        pid = launched.process.pid if part == "launcher" else children(launched.process.pid)[0].pid
        outcome = run_and(sandbox, lambda: os.kill(pid, signal.SIGKILL))
        assert isinstance(outcome, SandboxError) or outcome.status == "crashed"
        for dead in (sandbox, idle):
            execution = dead.run("1 + 1")
            assert (execution.text, execution.state) == ("2", "reset")
            assert "files are lost" in execution.state_reason
        for _ in range(4):
            assert works()
    assert works()


HOST = """
import sys, time
from belljar import Sandbox
busy, idle = Sandbox("native"), Sandbox("native")
idle.run("import subprocess; child = subprocess.Popen(['sleep', '1000'])")
busy.run("print('on', flush=True)\\nwhile True: pass", on_event=lambda event: print("on", flush=True))
"""


def test_a_host_killed_outright_leaves_no_process_and_its_groups_are_swept_by_the_next():
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE) as host:
        assert host.stdout.readline() == b"on\n"
        parts = descendants(host.pid)
        assert len(parts) >= 7
        host.kill()
    assert eventually(lambda: not any(alive(part) for part in parts), 5)
    assert works()  # a start of the engine sweeps
    assert eventually(lambda: own_groups(host.pid) == [], 5)


def test_a_host_that_is_terminated_cleans_up_by_itself():
    ended = HOST.replace(
        "import sys, time", "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))"
    )
    with subprocess.Popen([sys.executable, "-c", ended], stdout=subprocess.PIPE) as host:
        assert host.stdout.readline() == b"on\n"
        parts = descendants(host.pid)
        host.terminate()
        assert host.wait(20) == 3
    assert eventually(lambda: not any(alive(part) for part in parts), 5)
    assert own_groups(host.pid) == []


def test_a_fork_bomb_in_one_sandbox_does_not_keep_another_from_answering():
    bomb = "import os\nprint('on', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    started = threading.Event()
    with Sandbox("native", limits=Limits(timeout_s=3)) as sandbox, Sandbox("native") as other:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(sandbox.run, bomb, on_event=lambda event: started.set())
            assert started.wait(20)
            answers = [other.run(f"{number}").value for number in range(20)]
            assert works()
            ran = running.result(30)
        assert (answers, ran.status) == (list(range(20)), "timeout")
        assert sandbox.run("1 + 1").value == 2
        assert other.run("1 + 1").value == 2


def test_no_zombies_gather_while_a_host_lives():
    fill_pool()
    for _ in range(10):
        with Sandbox("native") as sandbox:
            sandbox.run("import os\nfor _ in range(5):\n    if os.fork() == 0: os._exit(0)")
            sandbox.run("import os; os._exit(1)")
    fill_pool()
    assert eventually(lambda: not any(process.state == "Z" for process in descendants(os.getpid())), 5)
