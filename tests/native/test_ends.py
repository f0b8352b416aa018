"""Out of memory, timeout, crash and cancel: told apart, and told again by the run that comes after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from belljar import Execution, Limits, Sandbox, compose
from belljar.settings import Settings

CHILDREN = """
import subprocess, sys, time
held = bytearray(90 << 20)
for at in range(0, len(held), 4096): held[at] = 1
child = "import time; held = b'x' * (25 << 20); time.sleep(20)"
children = [subprocess.Popen([sys.executable, "-c", child]) for _ in range(3)]
time.sleep(20)
"""


@pytest.fixture
def small(native: None) -> Iterator[Sandbox]:
    """A sandbox with 128 MB and a variable to lose."""
    with Sandbox("native", limits=Limits(memory_mb=128, timeout_s=20)) as sandbox:
        sandbox.run("kept = 1; open('kept.txt', 'w').write('kept')")
        yield sandbox


def is_reset(sandbox: Sandbox, *words: str) -> bool:
    """Whether the next run says that it starts afresh, and why; files are there, and the run after it is as usual."""
    after = sandbox.run("'kept' in globals(), open('kept.txt').read()")
    assert (after.status, after.value, after.state) == ("ok", [False, "kept"], "reset")
    assert [word for word in words if word not in after.state_reason] == []
    return sandbox.run("1").state == "kept"


def facts(ran: Execution) -> tuple[str, str, str, int, str]:
    return ran.status, ran.error.name, ran.error.code, ran.exit_code, ran.state


def test_one_large_allocation_is_a_memory_error_with_the_state_kept(small: Sandbox):
    ran = small.run("block = bytearray(1 << 30)")
    assert facts(ran) == ("out_of_memory", "MemoryError", "MEMORY_ERROR", 1, "kept")
    assert ran.error.line == 1
    assert small.run("kept").value == 1


def test_a_growing_list_is_a_memory_error_with_the_state_kept(small: Sandbox):
    ran = small.run("blocks = []\nwhile True:\n    blocks.append(b'x' * (1 << 20))")
    assert (ran.status, ran.error.code, ran.state) == ("out_of_memory", "MEMORY_ERROR", "kept")
    assert small.run("kept").value == 1


def test_memory_of_several_processes_together_is_ended_by_the_kernel(small: Sandbox):
    ran = small.run(CHILDREN)
    assert facts(ran) == ("out_of_memory", "MemoryError", "MEMORY_ERROR", 137, "reset")
    assert "128 MB" in ran.error.value
    assert is_reset(small, "memory limit of 128 MB")


def test_files_count_towards_memory(small: Sandbox):
    ran = small.run("with open('/tmp/big', 'wb') as file:\n    for _ in range(250): file.write(b'x' * (1 << 20))")
    assert facts(ran) == ("out_of_memory", "MemoryError", "MEMORY_ERROR", 137, "reset")
    assert is_reset(small, "memory limit of 128 MB")
    assert small.run("import os; os.remove('/tmp/big')").status == "ok"


def test_files_that_fill_the_memory_are_not_the_end_of_all_files(native: None):
    code = "with open('/tmp/big', 'wb') as file:\n    for _ in range(250): file.write(b'x' * (1 << 20))"
    host = compose.LocalHost(replace(Settings.load(), pool_size=0))
    with compose.using(host):
        for _ in range(8):
            with Sandbox("native", limits=Limits(memory_mb=128, timeout_s=20)) as sandbox:
                sandbox.files.write("kept.txt", "kept")
                assert sandbox.run(code).status == "out_of_memory"
                assert sandbox.run("open('kept.txt').read()").value == "kept"
    host.close()


def test_a_loop_is_interrupted_at_its_limit_with_the_state_kept(small: Sandbox):
    ran = small.run("import time\nstep = 0\nwhile True:\n    step += 1\n    time.sleep(0.001)", timeout=1)
    assert facts(ran) == ("timeout", "TimeoutError", "EXECUTION_TIMEOUT", 124, "kept")
    assert "main.py" in ran.error.traceback
    assert ran.error.line in (3, 4, 5)
    assert small.run("step > 100, kept").value == [True, 1]


@pytest.mark.parametrize("code", ["sum(range(10**13))", "max(range(10**13))"])
def test_native_code_that_does_not_look_up_is_killed_and_that_is_said(small: Sandbox, code: str):
    ran = small.run(code, timeout=1)
    assert facts(ran) == ("timeout", "TimeoutError", "EXECUTION_TIMEOUT", 124, "reset")
    assert "limit of 1 s" in ran.error.value
    assert "killed; variables are lost" in ran.error.value
    assert 1 <= ran.usage.wall_s < 6
    assert is_reset(small, "limit of 1 s")


def test_a_runaway_regular_expression_ends_at_its_limit(small: Sandbox):
    ran = small.run("import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", timeout=1)
    assert (ran.status, ran.usage.wall_s < 6) == ("timeout", True)


def test_children_end_with_the_run_that_timed_out(small: Sandbox):
    ran = small.run("import subprocess\nsubprocess.run(['sleep', '100'])", timeout=1)
    assert (ran.status, ran.state) == ("timeout", "kept")
    names = "[open(f'/proc/{pid}/comm').read().strip() for pid in os.listdir('/proc') if pid.isdigit()]"
    assert "sleep" not in small.run(f"import os\n{names}").value
    assert small.run("kept").value == 1


def test_a_crash_names_its_signal(small: Sandbox):
    ran = small.run("import ctypes\nctypes.string_at(0)")
    assert facts(ran) == ("crashed", "KernelCrashed", "CRASHED", 139, "reset")
    assert "SIGSEGV" in ran.error.value
    assert is_reset(small, "SIGSEGV")


@pytest.mark.parametrize("number", [6, 9, 15])
def test_a_signal_from_inside_is_a_crash(small: Sandbox, number: int):
    ran = small.run(f"import os\nos.kill(os.getpid(), {number})")
    assert facts(ran) == ("crashed", "KernelCrashed", "CRASHED", 128 + number, "reset")
    assert is_reset(small)


@pytest.mark.parametrize("code", [3, 0])
def test_leaving_without_a_word_is_told_with_the_exit_code(small: Sandbox, code: int):
    ran = small.run(f"print('last words', flush=True)\nimport os\nos._exit({code})")
    assert facts(ran) == ("crashed", "KernelCrashed", "CRASHED", code, "reset")
    assert (ran.stdout, f"exit code {code}" in ran.error.value) == ("last words\n", True)
    assert is_reset(small, f"exit code {code}")


def test_a_child_that_holds_the_channel_does_not_hide_the_end(small: Sandbox):
    ran = small.run("import os, time\nif os.fork() == 0:\n    time.sleep(100)\nos._exit(4)")
    assert (ran.status, ran.exit_code) == ("crashed", 4)
    assert ran.usage.wall_s < 10
    assert is_reset(small)


def test_sys_exit_is_the_codes_own_end_with_the_state_kept(small: Sandbox):
    ran = small.run("import sys\nsys.exit(7)")
    assert (ran.status, ran.exit_code, ran.state) == ("error", 7, "kept")
    assert small.run("kept").value == 1


@pytest.mark.parametrize(
    "code",
    ["os.close(3)", "os.closerange(0, 100)", "os.write(3, b'x' * 100)", "os.write(3, b'\\0\\0\\0\\2{}')"],
)
def test_a_broken_channel_ends_that_sandboxs_python_and_nothing_else(small: Sandbox, code: str):
    with Sandbox("native") as other:
        other.run("x = 1")
        assert small.run(f"import os\n{code}").status == "crashed"
        assert is_reset(small)
        assert other.run("x").value == 1
