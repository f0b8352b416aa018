"""Checklist rows about state that lasts (between turns, apart from others, after a crash or sleep), and long output."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import probe

from belljar import AsyncSandbox, CheckpointRefused, HostBusy, Limits, Sandbox, compose
from belljar.compose import LocalHost
from belljar.settings import Settings


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHost]:
    """A host with room for four, that puts what is idle to sleep at once, and a state folder of its own."""
    settings = replace(Settings.load(), state_dir=tmp_path_factory.mktemp("state"), pool_size=0, reserve_size=0)
    host = LocalHost(replace(settings, max_sandboxes=4, max_queue=2, idle_s=1))
    with compose.using(host):
        yield host
    host.close()


def test_a10_and_b02_a_second_turn_sees_variables_imports_and_functions(here):
    with Sandbox() as sandbox:
        sandbox.run("x = 41\nimport math as m\ndef f(): return x + 1")
        assert sandbox.run("[x, m.floor(2.5), f()]").value == [41, 2, 42]


def test_a11_and_b24_state_is_not_shared_also_when_both_run_at_once(here):
    async def both() -> list[Any]:
        async with AsyncSandbox() as first, AsyncSandbox() as second:
            await first.run("x = 'first'")
            alone = await second.run("x")
            acts = [one.run(f"y = {n}; import time; time.sleep(0.01); y") for n in range(3) for one in (first, second)]
            return [alone.error.name, (await second.run("'x' in globals()")).value, *await asyncio.gather(*acts)]

    name, shared, *ran = asyncio.run(both())
    assert (name, shared) == ("NameError", False)
    assert [each.value for each in ran] == [0, 0, 1, 1, 2, 2]


def test_a35_while_one_spins_another_answers(here):
    with Sandbox() as spinning, Sandbox() as other, ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        running = pool.submit(spinning.run, "print(1, flush=True)\nwhile True: pass", on_event=lambda _: begun.set())
        assert begun.wait(20)
        assert other.run("2 + 2").value == 4
        assert not running.done()
        spinning.interrupt()
        assert running.result(20).status == "cancelled"


def test_a44_a_worker_that_was_killed_is_told_and_the_next_run_works(here):
    with Sandbox("native") as sandbox:
        sandbox.run("x = 1")
        signal.pidfd_send_signal(probe.process(sandbox).kernel.pidfd, signal.SIGKILL)
        ran = sandbox.run("1 + 1")
        if ran.status == "crashed":  # it was not quite dead yet
            assert ran.error.code == "CRASHED"
            ran = sandbox.run("1 + 1")
        assert (ran.value, ran.state) == (2, "reset")
        assert ran.state_reason


def test_a47_state_survives_a_refresh(here):
    with Sandbox(durable=True) as sandbox:
        sandbox.run("x = 41")
    page = Sandbox.connect(sandbox.id)
    assert page.run("x + 1").value == 42
    assert Sandbox.connect(sandbox.id).run("x").value == 41  # a second one, while the first is open
    page.close()


def test_a48_what_was_idle_for_too_long_says_that_it_was_restored(here):
    sandbox = Sandbox(durable=True)
    sandbox.run("x = 41")
    deadline = time.monotonic() + 20
    while probe.is_live(sandbox) and time.monotonic() < deadline:
        time.sleep(0.05)
    ran = sandbox.run("x")
    assert (ran.value, ran.state) == (41, "restored")
    assert "without use" in ran.state_reason
    sandbox.close()


def test_a50_reset_forgets_variables_and_keeps_files(here):
    with Sandbox() as sandbox:
        sandbox.run("x = 1; open('kept.txt', 'w').write('y')")
        sandbox.reset()
        assert sandbox.run("['x' in globals(), open('kept.txt').read()]").value == [False, "y"]
    with Sandbox() as fresh:
        assert fresh.run("import os; ['x' in globals(), os.listdir()]").value == [False, []]


def test_a55_above_the_bound_the_answer_is_busy_and_it_works_later(here, monkeypatch):
    monkeypatch.setattr("belljar.host.admission.WAIT_S", 0.2)
    made = [Sandbox() for _ in range(4)]
    with pytest.raises(HostBusy) as busy:
        Sandbox()
    assert busy.value.retry_after_s > 0
    assert [sandbox.run("1").value for sandbox in made] == [1, 1, 1, 1]
    made.pop().close()
    made.append(Sandbox())
    assert made[-1].run("2").value == 2
    for sandbox in made:
        sandbox.close()


def test_d23_output_that_is_too_long_is_previewed_named_and_whole_in_a_file(here):
    with Sandbox(limits=Limits(output_mb=0.01)) as sandbox:
        ran = sandbox.run("for n in range(100_000): print(n)")
        whole = "".join(f"{n}\n" for n in range(100_000))
        assert (ran.status, ran.truncated) == ("ok", True)
        assert 0 < len(ran.stdout) <= 10_485
        assert whole.startswith(ran.stdout)
        (file,) = ran.files
        assert (file.path, file.size) == (".belljar/output/run-1.stdout.txt", len(whole))
        assert sandbox.files.read(file.path).decode() == whole
        assert sandbox.run(f"open({file.path!r}).read()[-6:]").value == "99999\n"  # by the code itself, too


def test_e02_bytes_of_a_session_restore_it(here):
    with Sandbox() as sandbox:
        sandbox.run("import numpy as np\nx = np.array([1.0, 2.0])")
        data = sandbox.checkpoint().to_bytes()
    with Sandbox.restore(data) as restored:
        assert restored.run("float(x[0])").value == 1.0


def test_e03_bytes_that_were_tampered_with_run_nothing_on_the_host(here, tmp_path: Path):
    trap = tmp_path / "trap"
    with Sandbox() as sandbox:
        sandbox.run(
            f"class Trap:\n    def __reduce__(self): return __import__('os').system, ('touch {trap}',)\nx = Trap()"
        )
        data = sandbox.checkpoint().to_bytes()
    for changed in (data[:-1] + bytes([data[-1] ^ 1]), data[: len(data) // 2], b"\x80\x05." + data):
        with pytest.raises(CheckpointRefused):
            Sandbox.restore(changed)
    Sandbox.restore(data).close()  # signed: its code runs, in the new sandbox
    assert not trap.exists()


def test_e23_ten_megabytes_of_state_make_the_round_trip(here):
    with Sandbox(durable=True) as sandbox:
        digest = sandbox.run("import hashlib, os\nx = os.urandom(10 << 20)\nhashlib.sha256(x).hexdigest()").value
        sandbox.hibernate()
        assert sandbox.run("import hashlib\nhashlib.sha256(x).hexdigest()").value == digest
        sandbox.close()


def test_e24_an_error_keeps_the_session(here):
    with Sandbox(durable=True) as sandbox:
        sandbox.run("x = 1")
        assert sandbox.run("y = 2; 1 / 0").status == "error"
        data = sandbox.checkpoint().to_bytes()
        sandbox.hibernate()
        assert sandbox.run("[x, y]").value == [1, 2]
        sandbox.close()
    with Sandbox.restore(data) as restored:
        assert restored.run("[x, y]").value == [1, 2]
    assert os.listdir(here.settings.state_dir / "checkpoints") == []
