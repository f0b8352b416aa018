"""One sandbox's runs: their order, how they are stopped, and what is left after its Python ended."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unconfined.conftest import eventually, is_gone

from belljar import HostBusy, Sandbox, SandboxClosed
from belljar.testing import UnconfinedHost, unconfined

STUBBORN = """
import time
print("begun", flush=True)
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
"""


def is_running(host: UnconfinedHost, sandbox: Sandbox) -> bool:
    return bool(host.host.status()["sandboxes"][sandbox.id]["is_busy"])


def waiting(host: UnconfinedHost, sandbox: Sandbox) -> int:
    return int(host.host.status()["sandboxes"][sandbox.id]["waiting"])


def test_runs_take_their_turns_in_the_order_in_which_they_came(host: UnconfinedHost, sandbox: Sandbox):
    first = threading.Thread(target=sandbox.run, args=("import time; seen = []; time.sleep(0.5)",))
    first.start()
    eventually(lambda: is_running(host, sandbox))
    threads = [threading.Thread(target=sandbox.run, args=(f"seen.append({number})",)) for number in range(5)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        eventually(lambda number=number: waiting(host, sandbox) == number)
    for thread in (first, *threads):
        thread.join()
    assert sandbox.run("seen").value == [0, 1, 2, 3, 4]


def test_a_run_beyond_the_queue_is_refused_at_once():
    with unconfined(max_queue=1) as host, Sandbox() as sandbox:
        threads = [threading.Thread(target=sandbox.run, args=("import time; time.sleep(0.5)",)) for _ in range(2)]
        for number, thread in enumerate(threads):
            thread.start()
            eventually(lambda number=number: is_running(host, sandbox) and waiting(host, sandbox) == number)
        with pytest.raises(HostBusy, match="1 runs wait"):
            sandbox.run("1")
        for thread in threads:
            thread.join()
        assert sandbox.run("1").value == 1


def test_a_run_past_its_time_is_interrupted_and_keeps_its_state(sandbox: Sandbox):
    sandbox.run("x = 5")
    late = sandbox.run("import time\nprint('begun', flush=True)\ntime.sleep(60)", timeout=1)
    assert (late.status, late.stdout, late.error.code, late.state) == (
        "timeout",
        "begun\n",
        "EXECUTION_TIMEOUT",
        "kept",
    )
    assert "line 3" in late.error.traceback
    assert sandbox.run("x").value == 5


def test_one_that_will_not_be_interrupted_is_killed_and_the_files_stay(sandbox: Sandbox):
    sandbox.run("x = 5; n = open('file', 'w').write('text')")
    late = sandbox.run(STUBBORN, timeout=1)
    assert (late.status, late.stdout, late.state) == ("timeout", "begun\n", "reset")
    after = sandbox.run("'x' in globals()")
    assert (after.value, after.state, "did not stop when interrupted" in after.state_reason) == (False, "reset", True)
    assert sandbox.files.read("file") == b"text"


def test_an_interrupt_ends_the_run_and_the_processes_that_it_started(sandbox: Sandbox):
    code = (
        "import os, subprocess\nchild = subprocess.Popen(['sleep', '600'])\nprint(child.pid, flush=True)\nchild.wait()"
    )
    said: list[str] = []

    def on_event(event: dict[str, str]) -> None:
        if event["type"] == "stdout" and not said:
            said.append(event["text"])
            threading.Thread(target=sandbox.interrupt).start()

    stopped = sandbox.run(code, on_event=on_event)
    assert stopped.status == "cancelled"
    assert sandbox.run("child.wait()").value == -9
    eventually(lambda: is_gone(int(said[0])))


@pytest.mark.parametrize(
    ("code", "words"),
    [("import os; os._exit(3)", "exit code 3"), ("import os; os.abort()", "SIGABRT")],
    ids=["exits", "aborts"],
)
def test_a_python_that_ends_is_a_crash_and_the_next_run_begins_anew(sandbox: Sandbox, code: str, words: str):
    ran = sandbox.run(f"print('last words', flush=True)\n{code}")
    assert (ran.status, ran.stdout, words in ran.error.value) == ("crashed", "last words\n", True)
    assert sandbox.run("1 + 1").value == 2


def test_a_kernel_that_was_killed_from_outside_is_replaced(sandbox: Sandbox):
    pid = sandbox.run("import os; os.getpid()").value
    os.kill(pid, 9)
    eventually(lambda: is_gone(pid))
    after = sandbox.run("2 + 2")
    assert (after.value, after.state) == (4, "reset")


def test_a_frame_of_nonsense_ends_that_kernel_and_nothing_else(sandbox: Sandbox):
    code = "import os, socket\nfor fd in range(3, 1024):\n    try:\n        os.write(fd, b'\\xff' * 8)\n    except OSError:\n        pass"
    ran = sandbox.run(code)
    assert (ran.status, "broke the protocol" in ran.error.value) == ("crashed", True)
    assert sandbox.run("1").value == 1


def test_reset_forgets_names_and_keeps_files(sandbox: Sandbox):
    sandbox.run("x = 1")
    sandbox.files.write("folder/file", "text")
    sandbox.reset()
    again = sandbox.run("['x' in globals(), open('folder/file').read()]")
    assert (again.value, again.execution_count) == ([False, "text"], 1)


def test_files_are_there_between_the_end_of_one_python_and_the_next(sandbox: Sandbox):
    sandbox.run("n = open('kept', 'w').write('text')\nimport os; os._exit(1)")
    assert sandbox.files.read("kept") == b"text"
    sandbox.files.write("new", b"bytes")
    assert [entry.path for entry in sandbox.files.list()] == ["kept", "new"]
    found = sandbox.run("import os; sorted(os.listdir())")
    assert (found.value, found.state) == (["kept", "new"], "reset")


def test_a_file_waits_for_the_run_that_is_on(host: UnconfinedHost, sandbox: Sandbox):
    running = threading.Thread(
        target=sandbox.run, args=("import time; time.sleep(0.5); n = open('f', 'w').write('1')",)
    )
    running.start()
    eventually(lambda: is_running(host, sandbox))
    assert sandbox.files.read("f") == b"1"
    running.join()


def test_a_run_and_a_file_that_come_while_python_is_replaced_do_not_wait_for_each_other(sandbox: Sandbox):
    for _ in range(5):
        sandbox.run("import os; os._exit(1)")
        sandbox.files.write("file", "text")  # by a Python that is there for the files alone
        os.kill(sandbox.run("import os; os.getpid()").value, 9)
        both = [
            threading.Thread(target=sandbox.run, args=("1",)),
            threading.Thread(target=sandbox.files.read, args=("file",)),
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(30)
        assert not any(thread.is_alive() for thread in both)


def test_what_was_printed_before_something_is_shown_comes_before_it(sandbox: Sandbox):
    printed, too_early = "", []

    def on_event(event: dict[str, Any]) -> None:
        nonlocal printed
        if event["type"] == "stdout":
            printed += event["text"]
        elif event["type"] == "result" and f"{event['data']['text/plain']}\n" not in printed:
            too_early.append(event)

    ran = sandbox.run("for i in range(100, 150):\n    print(i)\n    display(i)", on_event=on_event)
    assert (len(ran.results), too_early) == (50, [])


def test_a_workspace_that_the_code_took_away_is_made_again(sandbox: Sandbox):
    folder = Path(sandbox.run("import os; os.getcwd()").value)
    sandbox.run("import shutil; shutil.rmtree(os.getcwd())")
    assert not folder.exists()
    assert sandbox.run("os.listdir()").value == []


def test_it_completes_describes_saves_and_restores(sandbox: Sandbox):
    sandbox.run("import math\ndef double(x):\n    return 2 * x\nnumber = math.floor(2.5)")
    sandbox.files.write("file", "text")
    assert "floor" in [each.text for each in sandbox.complete("math.flo")]
    assert sorted(each.name for each in sandbox.variables()) == ["double", "number"]
    with Sandbox.restore(sandbox.checkpoint()) as restored:
        assert restored.run("[double(number), open('file').read()]").value == [4, "text"]


def test_a_fork_has_the_state_and_goes_its_own_way(sandbox: Sandbox):
    sandbox.run("x = [1]")
    (fork,) = sandbox.fork(1)
    with fork:
        assert fork.run("x.append(2); x").value == [1, 2]
        assert sandbox.run("x").value == [1]


def test_a_sandbox_that_was_closed_says_so(host: UnconfinedHost):
    sandbox = Sandbox()
    raised: list[type[BaseException]] = []

    def run() -> None:
        try:
            sandbox.run("import time; time.sleep(60)")
        except SandboxClosed as closed:
            raised.append(type(closed))

    running = threading.Thread(target=run)
    running.start()
    eventually(lambda: is_running(host, sandbox))
    sandbox.close()
    running.join(30)
    assert raised == [SandboxClosed]
    with pytest.raises(SandboxClosed):
        sandbox.run("1")
