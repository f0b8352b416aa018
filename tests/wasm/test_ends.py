"""How wasm sandboxes end, whoever ends first: no Deno outlives its host, and many at once all answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests import probe
from tests.reliability.traces import Process, alive, descendants, eventually

from belljar import Policy, Sandbox, compose
from belljar.compose import LocalHost
from belljar.settings import Settings

MANY = 20
HOST = """
import threading
from belljar import Policy, Sandbox
from belljar.engines.wasm.engine import WasmEngine
async def nobody(self): return None
if not JAILED: WasmEngine.jail = nobody
busy, asleep = (Sandbox("wasm", policy=Policy(packages="none")) for _ in range(2))
threading.Thread(target=asleep.run, args=("import time; time.sleep(1000)",), daemon=True).start()
busy.run("print('on', flush=True)\\nwhile True: pass", on_event=lambda event: print("on", flush=True))
"""


def denos(ancestor: int) -> list[Process]:
    """The live Deno processes of a host."""
    return [process for process in descendants(ancestor) if _is_deno(process) and alive(process)]


def _is_deno(process: Process) -> bool:
    try:
        return os.path.basename(Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")[0]) == b"deno"
    except OSError:
        return False


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("jailed", [True, False], ids=["in the jail, if there is one", "without a jail"])
def test_a_host_killed_outright_takes_busy_sandboxes_along(jailed: bool):
    env = os.environ | {"BELLJAR_POOL_SIZE": "0"}
    script = HOST.replace("JAILED", str(jailed))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=env) as host:
        assert host.stdout.readline() == b"on\n"
        parts = descendants(host.pid)
        assert len(denos(host.pid)) == 2
        host.kill()
    assert eventually(lambda: not any(alive(part) for part in parts), 10)


@pytest.mark.usefixtures("host")
def test_a_closed_sandbox_leaves_no_process_whatever_it_was_doing():
    before = len(denos(os.getpid()))
    on = threading.Event()
    busy, idle, dead = (Sandbox("wasm", policy=Policy(packages="none")) for _ in range(3))
    thread = threading.Thread(target=_run_quietly, args=(busy, on))
    thread.start()
    assert on.wait(30)
    assert dead.run("import os\nos.abort()").status == "crashed"
    for sandbox in (busy, idle, dead):
        sandbox.close()
    thread.join(30)
    assert not thread.is_alive()
    assert eventually(lambda: len(denos(os.getpid())) == before, 5)


def _run_quietly(sandbox: Sandbox, on: threading.Event) -> None:
    try:
        sandbox.run("print('on', flush=True)\nwhile True: pass", on_event=lambda event: on.set())
    except Exception:
        pass


@pytest.mark.usefixtures("host")
def test_a_killed_process_is_told_and_replaced():
    with Sandbox("wasm", policy=Policy(packages="none")) as sandbox:
        sandbox.run("x = 1")
        (process,) = denos(os.getpid())
        os.kill(process.pid, 9)
        assert eventually(lambda: not alive(process))
        ran = sandbox.run("'x' in globals()")
        if ran.status == "crashed":  # the run came before the news
            ran = sandbox.run("'x' in globals()")
        assert (ran.value, ran.state) == (False, "reset")
        assert ran.state_reason
        assert sandbox.run("2 + 2").value == 4


def test_one_that_was_killed_in_the_pool_is_replaced(native: None):
    host = LocalHost(replace(Settings.load(), pool_size=1, reserve_size=0))
    with compose.using(host):
        before = {process.pid for process in denos(os.getpid())}
        host.background.wait(
            host.host.pools.ready(
                probe.engine(host, "wasm"), probe.installer(host, "wasm").environment(Policy(packages="none"))
            )
        )
        (pooled,) = [process for process in denos(os.getpid()) if process.pid not in before]
        pool = probe.only_pool(host)
        (dead,) = probe.ready(pool)
        os.kill(pooled.pid, 9)
        assert eventually(lambda: pool.ready == 1 and dead not in probe.ready(pool), 30)
        with Sandbox("wasm", policy=Policy(packages="none")) as sandbox:
            assert sandbox.run("2 + 2").value == 4
    host.close()


@pytest.mark.long
@pytest.mark.usefixtures("host")
def test_twenty_at_once_all_answer_with_their_own_state():
    kinds = (Policy(), Policy(packages="none"))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda number: Sandbox("wasm", policy=kinds[number % 2]), range(MANY)))
        try:
            list(pool.map(lambda pair: pair[1].run(f"x = {pair[0]}"), enumerate(made)))
            answers = list(pool.map(lambda sandbox: sandbox.run("3 * x").value, made))
        finally:
            list(pool.map(lambda sandbox: sandbox.close(), made))
    assert answers == [3 * number for number in range(MANY)]
    assert eventually(lambda: denos(os.getpid()) == [], 10)


@pytest.mark.usefixtures("host")
def test_files_survive_a_reset_a_kill_and_a_crash():
    with Sandbox("wasm", policy=Policy(packages="none")) as sandbox:
        sandbox.files.write("sub/kept.txt", "kept")
        sandbox.reset()
        assert sandbox.run("open('sub/kept.txt').read()").value == "kept"
        assert sandbox.run("open('made', 'w').write('x' * 100)\nsum(range(10**13))", timeout=1).status == "timeout"
        assert sandbox.run("open('sub/kept.txt').read() + open('made').read()").value == "kept" + "x" * 100
        assert sandbox.run("import os\nos.abort()").status == "crashed"
        assert sandbox.files.read("sub/kept.txt") == b"kept"
        assert sandbox.run("len(open('made').read())").value == 100
