"""Each limit holds, for the sandbox as a whole, and what it used is told."""

from __future__ import annotations

import pytest

from belljar import Limits, Sandbox

BURN = """
import os, time
until = time.monotonic() + {seconds}
children = []
for _ in range({processes}):
    child = os.fork()
    if child == 0:
        while time.monotonic() < until: pass
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
"""


@pytest.mark.parametrize(("cpus", "low", "high"), [(1.0, 0.2, 2.9), (0.25, 0.1, 1.0)])
def test_two_busy_processes_share_the_cpus_of_the_sandbox(native: None, cpus: float, low: float, high: float):
    with Sandbox("native", limits=Limits(cpus=cpus)) as sandbox:
        ran = sandbox.run(BURN.format(seconds=2, processes=2))
        assert ran.status == "ok"
        assert low < ran.usage.cpu_s < high


def test_a_fork_bomb_stops_at_the_limit_and_the_sandbox_answers_after_it(native: None):
    with Sandbox("native", limits=Limits(processes=16)) as sandbox:
        ran = sandbox.run(
            "import os, time\nmade = 0\nwhile True:\n    if os.fork() == 0:\n        time.sleep(30)\n        os._exit(0)\n    made += 1"
        )
        assert (ran.status, ran.error.name, ran.error.code) == ("error", "BlockingIOError", "PROCESS_LIMIT")
        assert sandbox.run("made").value == 15


def test_threads_count_as_processes(native: None):
    with Sandbox("native", limits=Limits(processes=16)) as sandbox:
        ran = sandbox.run(
            "import threading, time\nfor n in range(100): threading.Thread(target=time.sleep, args=(1,)).start()"
        )
        assert (ran.error.code, sandbox.run("n").value) == ("PROCESS_LIMIT", 15)


def test_one_process_means_no_children(native: None):
    with Sandbox("native", limits=Limits(processes=1)) as sandbox:
        assert sandbox.run("import os\nos.fork()").error.code == "PROCESS_LIMIT"
        assert sandbox.run("1 + 1").value == 2


def test_every_writable_folder_shares_one_disk(native: None):
    with Sandbox("native", limits=Limits(disk_mb=8)) as sandbox:
        write = "open({!r}, 'wb').write(b'x' * (3 << 20))"
        assert sandbox.run(write.format("/workspace/a")).status == "ok"
        assert sandbox.run(write.format("/tmp/b")).status == "ok"
        for folder in ("/home/sandbox", "/dev/shm", "/tmp", "/workspace"):
            ran = sandbox.run(write.format(f"{folder}/c"))
            assert (ran.status, ran.error.code) == ("error", "DISK_LIMIT")
        sandbox.run("import os; os.remove('/tmp/b')")
        assert sandbox.run(write.format("/home/sandbox/d")).status == "ok"


def test_empty_files_run_out_too(native: None):
    with Sandbox("native", limits=Limits(disk_mb=1)) as sandbox:
        ran = sandbox.run("for n in range(10_000): open(f'/tmp/{n}', 'w').close()")
        assert (ran.error.code, 900 < sandbox.run("n").value < 1100) == ("DISK_LIMIT", True)
        assert sandbox.run("import glob, os\nfor path in glob.glob('/tmp/*'): os.remove(path)").status == "ok"
        assert sandbox.run("open('/tmp/again', 'w').close()").status == "ok"


@pytest.mark.parametrize("memory_mb", [64, 256, 1024])
def test_the_sandbox_sees_its_own_memory_limit(native: None, memory_mb: int):
    for _ in range(2):  # the second may come from the pool
        with Sandbox("native", limits=Limits(memory_mb=memory_mb)) as sandbox:
            read = "int(open('/proc/meminfo').readline().split()[1]) // 1024"
            assert sandbox.run(read).value == memory_mb
            assert sandbox.run(f"x = bytearray({memory_mb // 2} << 20)").status == "ok"
            assert sandbox.run(f"x = bytearray({memory_mb} << 20)").status == "out_of_memory"


def test_a_larger_disk_takes_a_larger_file(native: None):
    with Sandbox("native", limits=Limits(disk_mb=400, memory_mb=900)) as sandbox:
        ran = sandbox.run("with open('big', 'wb') as file:\n    for _ in range(300): file.write(bytes(1 << 20))")
        assert (ran.status, ran.files[0].size) == ("ok", 300 << 20)


def test_open_files_are_limited(sandbox: Sandbox):
    ran = sandbox.run("files = []\nwhile True: files.append(open('/dev/null'))")
    assert (ran.status, ran.error.name) == ("error", "OSError")
    assert sandbox.run("len(files) < 1100").value is True


def test_peak_memory_and_cpu_time_are_seen_from_outside(sandbox: Sandbox):
    ran = sandbox.run("x = b'x' * (200 << 20)\nlen(x)")
    assert 200 << 20 < ran.usage.peak_memory_bytes < 400 << 20
    ran = sandbox.run("import time\nbegan = time.process_time()\nwhile time.process_time() - began < 0.5: pass")
    assert 0.45 < ran.usage.cpu_s < ran.usage.wall_s + 0.1  # one thread: at most as long as it took


def test_a_reset_heals_a_workspace_that_code_locked_itself_out_of(sandbox):
    sandbox.files.write("kept.txt", "still here")
    sandbox.run("import os; os.chmod('/workspace', 0)")
    sandbox.reset()
    assert sandbox.run("open('/workspace/kept.txt').read()").value == "still here"
