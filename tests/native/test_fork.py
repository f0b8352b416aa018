"""Live forks on native: copy-on-write of a running Python, into walls and limits of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests import probe
from tests.reliability import traces
from tests.shop import Shop, wheel

from belljar import AsyncSandbox, InvalidRequest, Limits, Policy, Sandbox, SandboxError, StartFailed
from belljar.durable import forks
from belljar.engines.base import Spec
from belljar.engines.native.engine import NativeEngine
from belljar.engines.native.process import NativeProcess
from belljar_jail.ids import FAMILY, map_of_first, map_of_fork

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can give forks user ids of their own")

STATE = """
import os, random, threading, time, socket
rows, log = [1], open("log.txt", "a")
log.write("a"); log.flush()
ends = socket.socketpair()
event = threading.Event()
threading.Thread(target=event.wait, name="waiter", daemon=True).start()
random.seed(1)
os.makedirs("deep/er"); os.chmod("deep", 0o750); os.symlink("../log.txt", "deep/link"); os.mkfifo("deep/pipe")
with open("holes", "wb") as holes: holes.seek(100 << 20); holes.write(b"end")
os.chmod("holes", 0o640)
"""


@pytest.fixture
def closing(native: None) -> Iterator[ExitStack]:
    """Closes what a test makes."""
    with ExitStack() as stack:
        yield stack


def process_of(sandbox: Sandbox | AsyncSandbox) -> NativeProcess:
    process = probe.process(sandbox)
    assert isinstance(process, NativeProcess)
    return process


def test_forks_have_the_state_of_one_moment_and_go_their_own_ways(sandbox: Sandbox, closing: ExitStack):
    sandbox.run(STATE)
    forks = [closing.enter_context(fork) for fork in sandbox.fork(2)]
    drawn = set()
    for number, fork in enumerate(forks):
        ran = fork.run(f"rows.append('fork {number}'); log.write('{number}'); log.flush()\nrows")
        assert (ran.value, ran.state, ran.execution_count) == ([1, f"fork {number}"], "kept", 2)
        assert "thread 'waiter'" in ran.state_reason
        assert "socket:" in ran.state_reason
        assert fork.run("open('log.txt').read()").value == f"a{number}"
        drawn.add(fork.run("random.random()").value)
        assert fork.run("threading.active_count()").value == 1
        facts = "oct(os.stat('deep').st_mode), os.readlink('deep/link'), os.path.exists('deep/pipe')"
        assert fork.run(facts).value == ["0o40750", "../log.txt", True]
        assert fork.run("s = os.stat('holes'); s.st_size, s.st_blocks, oct(s.st_mode)").value == [
            (100 << 20) + 3,
            8,
            "0o100640",
        ]
        ran = fork.run("ends[0].send(b'x')")
        assert ran.error is not None
        assert ran.error.name == "OSError"
    assert len(drawn) == 2
    assert sandbox.run("rows, open('log.txt').read(), threading.active_count()").value == [[1], "a", 2]
    assert sandbox.run("ends[0].send(b'x'); ends[1].recv(9)").text == "b'x'"
    assert {fork.id for fork in forks}.isdisjoint({sandbox.id})


def test_memory_is_shared_until_it_is_written(closing: ExitStack):
    parent = closing.enter_context(Sandbox("native", limits=Limits(memory_mb=400)))
    parent.run("held = bytearray(b'x') * (200 << 20)")
    fork = closing.enter_context(parent.fork()[0])
    assert fork.run("sum(held[::1 << 20])").value == 200 * ord("x")
    group = process_of(fork).group
    assert group is not None
    assert group.peak_bytes() < 60 << 20
    fork.run("for at in range(0, len(held), 4096): held[at] = 1")
    assert group.peak_bytes() > 200 << 20
    assert parent.run("sum(held[::1 << 20])").value == 200 * ord("x")


def test_a_fork_is_held_to_limits_of_its_own(closing: ExitStack):
    parent = closing.enter_context(Sandbox("native", limits=Limits(memory_mb=128, disk_mb=16)))
    parent.run("import os; kept = 1; open('half', 'wb').write(bytes(10 << 20))")
    fork = closing.enter_context(parent.fork()[0])
    ran = fork.run("blocks = []\nwhile True: blocks.append(b'x' * (1 << 20))")
    assert ran.status == "out_of_memory"
    fork.run("del blocks")
    assert "No space left" in fork.run("open('more', 'wb').write(bytes(10 << 20))").error.value
    assert fork.run("import os; os.remove('half'); open('more', 'wb').write(bytes(10 << 20))").value == 10 << 20
    assert parent.run("kept, os.listdir()").value == [1, ["half"]]


def test_each_lives_and_ends_without_the_other(closing: ExitStack):
    parent = closing.enter_context(Sandbox("native"))
    parent.run("import os, signal; rows = [0]")
    first, second = (closing.enter_context(fork) for fork in parent.fork(2))
    third = closing.enter_context(first.fork()[0])
    assert third.run("rows.append(3); rows").value == [0, 3]
    killed = parent.run("signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", timeout=1)
    assert (killed.status, killed.state) == ("timeout", "reset")
    assert [fork.run("rows[0]").state for fork in (first, second, third)] == ["kept"] * 3
    crashed = first.run("os.kill(os.getpid(), 9)")
    assert (crashed.status, crashed.state) == ("crashed", "reset")
    assert "SIGKILL" in crashed.error.value
    open_file = first.run("open('after.txt', 'w').write('again')")
    assert (open_file.status, open_file.state) == ("ok", "reset")
    parent.close()
    first.close()
    assert (second.run("rows").value, third.run("rows").value) == ([0], [0, 3])
    fourth = closing.enter_context(third.fork()[0])
    assert fourth.run("rows").value == [0, 3]
    fresh = first
    with pytest.raises(SandboxError):
        fresh.run("1")


def test_a_fork_bomb_in_the_parent_is_ended_and_the_forks_live_on(closing: ExitStack):
    parent = closing.enter_context(Sandbox("native", limits=Limits(processes=32)))
    parent.run("import os, signal; x = 1")
    fork = closing.enter_context(parent.fork()[0])
    bomb = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert parent.run(bomb, timeout=1).status == "timeout"
    assert (fork.run("x").value, fork.run("x").state) == (1, "kept")
    assert parent.run("import os; [p for p in os.listdir('/proc') if p.isdigit()][:2]").state == "reset"
    assert fork.run(bomb, timeout=1).status == "timeout"
    assert parent.run("1").state == "kept"


def test_folders_nested_too_deep_are_a_reason_and_cost_nothing(sandbox: Sandbox):
    sandbox.run("import os\nfor _ in range(300): os.mkdir('d'); os.chdir('d')\nx = 1")
    with pytest.raises(StartFailed, match="nested deeper than 200"):
        sandbox.fork()
    assert sandbox.run("x").value == 1


def test_nothing_is_left_of_a_family():
    groups = len(traces.own_groups(os.getpid()))
    with Sandbox("native") as parent:
        parent.run("x = 1")
        forks = parent.fork(2)
        grandchild = forks[0].fork()[0]
        assert len(traces.own_groups(os.getpid())) > groups
        processes = [process_of(each) for each in (parent, *forks, grandchild)]
        assert all(process.keeper.pidfd >= 0 for process in processes)
        for each in (parent, forks[0], grandchild, forks[1]):
            each.close()
    assert [(process.keeper.pidfd, process.forks, process.parent) for process in processes] == [(-1, set(), None)] * 4
    traces.eventually(lambda: not any(os.path.exists(f) for p in processes for f in p.group.folders.values()))
    assert not [folder for p in processes for folder in p.group.folders.values() if folder.exists()]


def test_memory_that_processes_share_goes_through_a_checkpoint(sandbox: Sandbox, closing: ExitStack):
    sandbox.run("import mmap; shared = mmap.mmap(-1, 4096); rows = [1]")
    fork = closing.enter_context(sandbox.fork()[0])
    assert fork.restored is not None
    assert list(fork.restored.skipped) == ["shared"]
    ran = fork.run("rows")
    assert (ran.value, ran.state) == ([1], "restored")
    assert "shared between processes" in ran.state_reason
    assert ran.state_reason.endswith("without shared")
    assert sandbox.run("shared[0]").value == 0


def test_a_sandbox_that_may_have_no_more_processes_is_not_forked_and_goes_on(closing: ExitStack):
    parent = closing.enter_context(Sandbox("native", limits=Limits(processes=4)))
    parent.run("import subprocess; children = [subprocess.Popen(['sleep', '60']) for _ in range(3)]; x = 1")
    with pytest.raises(StartFailed, match="temporarily unavailable"):
        parent.fork()
    assert parent.run("for child in children[1:]: child.kill(); child.wait()\nx").value == 1
    assert closing.enter_context(parent.fork()[0]).run("x").value == 1


def test_a_file_that_is_mapped_as_shared_is_not_shared_with_a_fork_of_a_fork(sandbox: Sandbox, closing: ExitStack):
    sandbox.run("import mmap; open('f', 'wb').write(bytes(4096))")
    fork = closing.enter_context(sandbox.fork()[0])
    fork.run("f = open('f', 'rb'); view = mmap.mmap(f.fileno(), 4096, access=mmap.ACCESS_READ); kept = 1")
    second = closing.enter_context(fork.fork()[0])
    ran = second.run("kept")
    assert (ran.value, ran.state) == (1, "restored")
    assert "shared between processes" in ran.state_reason


def test_a_fork_waits_its_turn_and_a_loop_goes_on(sandbox: Sandbox, closing: ExitStack):
    sandbox.run("import asyncio\nawait asyncio.sleep(0)\nvalue = 1")
    fork = closing.enter_context(sandbox.fork()[0])
    assert fork.run("await asyncio.sleep(0.01, value)").value == 1
    assert sandbox.run("await asyncio.sleep(0.01, value)").value == 1
    assert fork.run("import subprocess; subprocess.run(['id', '-u'], capture_output=True).stdout").text == "b'1000\\n'"


def test_a_number_of_forks_that_cannot_be_meant_is_refused(sandbox: Sandbox):
    for count in (0, -1, 33, 1.5, True, "2"):
        with pytest.raises(InvalidRequest, match="from 1 to 32"):
            sandbox.fork(count)


def test_every_id_of_a_family_has_one_name_in_each_map():
    def parsed(text: str) -> dict[int, int]:
        rows = [[int(word) for word in row.split()] for row in text.splitlines()]
        named = {inside + at: outside + at for inside, outside, count in rows for at in range(count)}
        assert len(named) == sum(row[2] for row in rows) == FAMILY
        assert len(set(named.values())) == FAMILY
        return named

    eldest = parsed(map_of_first(512))
    assert (eldest[1000], eldest[1001]) == (512, 513)
    for own, parent in ((2, 0), (4, 2), (254, 2), (2, 254), (4, 0)):
        names = parsed(map_of_fork(own, parent))
        assert names[1001] == names[1000] + 1 == (2000 + own + 1)
        assert names[2000 + parent] == 1000
        assert set(names.values()) == {1000, 1001} | {
            2000 + at for at in range(FAMILY) if at not in (parent, parent + 1)
        }


def test_packages_of_the_parent_are_there_and_more_can_be_added(shop: Shop, closing: ExitStack):
    shop.sell(wheel("walnut", "1.0", {"walnut.py": "x = 1"}), wheel("hazel", "1.0", {"hazel.py": "x = 2"}))
    parent = closing.enter_context(Sandbox("native", packages=["walnut"]))
    fork = closing.enter_context(parent.fork()[0])
    assert fork.run("import walnut; walnut.x").value == 1
    assert fork.install("hazel") == ["hazel==1.0"]
    assert fork.run("import hazel; hazel.x").value == 2
    fork.reset()
    assert fork.run("import hazel, walnut; hazel.x + walnut.x").value == 3
    assert parent.run("import importlib.util; importlib.util.find_spec('hazel') is None").value is True


def test_all_forks_are_made_or_none(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    sandbox.run("x = 1")
    genuine, made = NativeEngine.fork, []

    async def fork(self: NativeEngine, process: NativeProcess, spec: Spec) -> object:
        if len(made) == 2:
            raise StartFailed("no room for a third")
        made.append(await genuine(self, process, spec))
        return made[-1]

    monkeypatch.setattr(NativeEngine, "fork", fork)
    with pytest.raises(StartFailed, match="no room for a third"):
        sandbox.fork(3)
    assert [process.keeper.pidfd for process, _ in made] == [-1, -1]
    assert process_of(sandbox).forks == set()
    assert sandbox.run("x").value == 1


def test_a_fork_that_nobody_waits_for_any_more_is_not_left_behind(native: None):
    async def act() -> tuple[object, int]:
        async with AsyncSandbox("native") as sandbox:
            await sandbox.run("x = 1; held = b'x' * (50 << 20)")
            for after_s in (0.0, 0.003, 0.01, 0.02, 0.04):
                waiting = asyncio.create_task(sandbox.fork())
                await asyncio.sleep(after_s)
                waiting.cancel()
                done = await asyncio.gather(waiting, return_exceptions=True)
                if isinstance(done[0], list):
                    await done[0][0].close()
            value = (await sandbox.run("x")).value
            return value, len(process_of(sandbox).forks)

    assert asyncio.run(act()) == (1, 0)


@pytest.mark.parametrize(
    "minor", [pytest.param("3.10", marks=pytest.mark.long), pytest.param("3.12", marks=pytest.mark.long), "3.13"]
)
def test_a_sandbox_of_another_python_is_forked_live_too(minor: str, closing: ExitStack):
    try:
        parent = closing.enter_context(Sandbox("native", python=minor, policy=Policy(packages="none")))
    except InvalidRequest as missing:
        pytest.skip(str(missing))
    parent.run("import threading, warnings; warnings.simplefilter('error')\nlines = (n for n in range(3)); next(lines)")
    parent.run("event = threading.Event(); threading.Thread(target=event.wait, daemon=True).start()")
    fork = closing.enter_context(parent.fork()[0])
    ran = fork.run("next(lines), threading.active_count()")
    assert (ran.value, ran.state) == ([1, 1], "kept")
    assert parent.run("event.set(); next(lines)").value == 1


def test_the_answer_to_a_fork_that_was_given_up_is_not_taken_for_that_to_the_next(native: None):
    async def see() -> None:
        async with AsyncSandbox("native", policy=Policy(packages="none")) as parent:
            await asyncio.to_thread(probe.wait, parent, fork_twice(parent))

    async def fork_twice(parent: AsyncSandbox) -> None:
        host, session = probe.host(parent), probe.session(parent)
        keeper = process_of(parent).keeper
        assert keeper is not None
        first = asyncio.ensure_future(forks.fork(host, session, 1, no_key))
        while not probe.waiting_orders(keeper):
            await asyncio.sleep(0)
        first.cancel()
        assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], asyncio.CancelledError)
        ((second, _),) = await forks.fork(host, session, 1, no_key)
        assert isinstance(second.process, NativeProcess)
        assert second.process.keeper is not None
        assert second.process.keeper.alive
        await host.close_session(second)

    def no_key() -> bytes:
        raise AssertionError("a live fork needs no checkpoint")

    asyncio.run(see())


def test_a_sandbox_without_room_for_its_forks_refuses_them_and_goes_on(closing: ExitStack):
    parent = closing.enter_context(Sandbox("native", limits=Limits(memory_mb=64), policy=Policy(packages="none")))
    parent.run("rows = bytearray(45 << 20)\nfor at in range(0, len(rows), 4096): rows[at] = 1").raise_for_status()
    with pytest.raises(StartFailed, match=r"no room for a fork.*memory_mb"):
        parent.fork(16)
    ran = parent.run("rows[4096]")
    assert (ran.value, ran.state) == (1, "kept")
    fork = closing.enter_context(parent.fork()[0])
    assert fork.run("rows[4096]").value == 1
