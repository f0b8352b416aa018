"""kill -9 of a whole host: nothing of it is left when the next one begins, and what was durable goes on there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reliability.traces import Process, alive, descendants, eventually, own_groups

from belljar import Sandbox, compose
from belljar.compose import LocalHost
from belljar.settings import Settings

HOST = """
import json, sys, threading, time
from belljar import Sandbox, compose
from belljar.service.base import LIBRARY
made = [Sandbox("native", durable=True) for _ in range(int(sys.argv[1]))]
for number, sandbox in enumerate(made):
    sandbox.run(f"x = {number}\\ndef f(): return x * 2")
    sandbox.files.write("mine.txt", str(number))
here = compose.local_host()
for sandbox in made:
    here.background.wait(here.host.session(LIBRARY, sandbox.id).guardian.settle())
code = "import subprocess; child = subprocess.Popen(['sleep', '1000'])\\nx = -1\\nprint('on', flush=True)\\nwhile True: pass"
begun = threading.Semaphore(0)
for sandbox in made:
    run = lambda sandbox=sandbox: sandbox.run(code, on_event=lambda event: begun.release())
    threading.Thread(target=run, daemon=True).start()
for _ in made:
    begun.acquire()
print(json.dumps([sandbox.id for sandbox in made]), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def state_dir(native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELLJAR_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def next_host(state_dir: Path) -> Iterator[LocalHost]:
    """Begins when it is first used."""
    host = LocalHost(replace(Settings.load(), pool_size=0, reserve_size=0))
    with compose.using(host):
        yield host
    host.close()


def killed_host(sandboxes: int, freeze: bool = False) -> tuple[int, list[str], list[Process]]:
    """The pid of a host that was killed with so many busy durable sandboxes, their ids, and its processes."""
    with subprocess.Popen([sys.executable, "-c", HOST, str(sandboxes)], stdout=subprocess.PIPE) as host:
        ids = json.loads(host.stdout.readline())
        parts = descendants(host.pid)
        assert len(parts) >= 3 * sandboxes
        if freeze:  # what cannot see that its host is gone cannot end by itself
            for part in parts:
                if part.parent == host.pid or part.parent in {each.pid for each in parts if each.parent == host.pid}:
                    os.kill(part.pid, signal.SIGSTOP)
        host.kill()
    return host.pid, ids, parts


def test_every_durable_sandbox_goes_on_after_the_host_was_killed(state_dir: Path, next_host: LocalHost):
    pid, ids, parts = killed_host(4)
    began = time.monotonic()
    ran = [Sandbox.connect(id_).run("[x, f(), open('mine.txt').read()]") for id_ in ids]
    assert [each.value for each in ran] == [[number, number * 2, str(number)] for number in range(4)]
    assert {each.state for each in ran} == {"restored"}
    assert {each.state_reason for each in ran} == {
        "the state after run 1 was restored: its host ended without closing it"
    }
    assert eventually(lambda: not any(alive(part) for part in parts) and own_groups(pid) == [], 10)
    assert time.monotonic() - began < 30
    assert [path.suffix for path in (state_dir / "hosts").iterdir() if path.name.startswith(f"{pid}-")] == []


def test_frozen_processes_go_with_their_host_and_its_groups_with_the_next_sweep(state_dir: Path, next_host: LocalHost):
    with Sandbox("native") as bystander:  # its engine is up before there is anything to sweep
        bystander.run("x = 'mine'")
        pid, ids, parts = killed_host(1, freeze=True)
        assert eventually(lambda: not any(alive(part) for part in parts), 10)
        assert Sandbox.connect(ids[0]).run("x").value == 0
        assert own_groups(pid) == []  # any other host that starts meanwhile may have swept them, too
        assert bystander.run("x").value == "mine"
    noted = json.loads(next((state_dir / "hosts").glob("*.lock")).read_text())["processes"]
    assert {tuple(each) for each in noted} <= {(part.pid, part.started) for part in descendants(os.getpid())}
    assert len(noted) == 2  # the launcher and process 1


LEAVES = """
import threading
from belljar import Sandbox
sandbox = Sandbox("native", durable=True)
sandbox.run("x = 1")
idle = Sandbox("native", durable=True)
idle.run("y = 2")
begun = threading.Event()
code = "x = -1\\nprint('on', flush=True)\\nwhile True: pass"
run = lambda: sandbox.run(code, timeout=300, on_event=lambda event: begun.set())
threading.Thread(target=run, daemon=True).start()
begun.wait()
print(sandbox.id, idle.id)
"""


def test_a_host_that_ends_during_a_run_does_not_wait_for_it(state_dir: Path, next_host: LocalHost):
    done = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=60, check=False)
    busy, idle = done.stdout.split()
    assert list((state_dir / "hosts").iterdir()) == []
    ran = Sandbox.connect(idle).run("y")
    assert (ran.value, ran.state) == (2, "restored")
    ran = Sandbox.connect(busy).run("x")
    assert (ran.value, ran.state) == (1, "restored")
    assert "its host was closed" in ran.state_reason


def test_a_killed_host_is_swept_by_one_of_many_that_begin_at_once(state_dir: Path):
    _, ids, parts = killed_host(1)
    taker = (
        "import sys\nfrom belljar import Sandbox, SandboxTaken\ntry:\n    sandbox = Sandbox.connect(sys.argv[1])\n"
        "    print(sandbox.run('x').value, flush=True)\n    input()\nexcept SandboxTaken:\n    print('taken', flush=True)"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", taker, ids[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = sorted(other.stdout.readline().strip() for other in others)
    for other in others:
        other.communicate("\n", timeout=30)
    assert said == ["0", "taken", "taken"]
    assert eventually(lambda: not any(alive(part) for part in parts), 10)


COUNTS = """
import sys
from belljar import Sandbox
sandbox = Sandbox.connect(sys.argv[1]) if sys.argv[1:] else Sandbox("native", durable=True)
number = sandbox.run("n = globals().get('n', 0); n").value
print(sandbox.id, number, flush=True)
while True:
    number += 1
    sandbox.run(f"n = {number}; import os; pad = os.urandom(300_000); written = open('n', 'w').write(str(n))").raise_for_status()
    print(number, flush=True)
"""


def test_a_host_killed_at_any_moment_loses_the_last_run_at_most_and_leaves_nothing_torn(
    state_dir: Path, next_host: LocalHost
):
    words, told = [], 0
    for seconds in (0.7, 0.05, 0.43):
        with subprocess.Popen([sys.executable, "-c", COUNTS, *words], stdout=subprocess.PIPE, text=True) as host:
            name, found = host.stdout.readline().split()
            # One more when it was killed before it could say so, one less when it had only just ended.
            assert told - 1 <= int(found) <= told + 1
            told = int(host.stdout.readline())
            time.sleep(seconds)
            host.kill()
            told = int([told, *host.stdout.read().split()][-1])
        words = [name]
    sandbox = Sandbox.connect(name)
    inside, written = sandbox.run("[n, int(open('n').read())]").value
    assert inside == written
    assert told - 1 <= inside <= told + 1
    sandbox.close()
