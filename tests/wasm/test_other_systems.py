"""A wasm sandbox needs nothing of Linux: it runs where the native engine and the modules it stands on do not exist.

Simulated as far as that is honest: a process in which they cannot be imported and that believes to be on another system.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ELSEWHERE = """
import asyncio, concurrent.futures, importlib.abc, os, subprocess, sys, tempfile

class Nowhere(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in MISSING or name.startswith(("belljar.engines.native", "belljar_jail")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

MISSING = ("resource", "termios", "pwd", "grp", "tty", "pty", "readline")
for name in MISSING:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Nowhere())
sys.platform = "freebsd14"
for name in ("pidfd_open", "memfd_create", "sched_getaffinity", "eventfd", "setns", "unshare", "getxattr", "splice"):
    if hasattr(os, name):
        delattr(os, name)
os.process_cpu_count = os.cpu_count
"""
USE = """
from belljar import Limits, Policy, Sandbox
with Sandbox(ENGINE, policy=Policy(packages="none")) as sandbox:
    sandbox.files.write("a.txt", "under glass")
    assert sandbox.engine == "wasm"
    assert sandbox.run("open('a.txt').read()").value == "under glass"
    assert sandbox.run("while True: pass", timeout=1).status == "timeout"
    ran = sandbox.run("1 / 0")
    assert (ran.error.name, ran.state, ran.degraded) == ("ZeroDivisionError", "kept", [])
    assert ran.usage.peak_memory_bytes > 0
    sandbox.reset()
    assert sandbox.files.read("a.txt") == b"under glass"
    assert sandbox.run("import sys; sys.platform").value == "emscripten"
assert not any(name.startswith(("belljar.engines.native", "belljar_jail")) for name in sys.modules)
print("works")
"""
NO_FORK = "del os.register_at_fork, os.fork\n"  # as on Windows


def in_another_world(script: str) -> tuple[str, str]:
    env = os.environ | {"BELLJAR_POOL_SIZE": "0"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=env)
    return done.stdout.strip(), done.stderr[-2000:]


@pytest.mark.usefixtures("host")
def test_it_runs_where_the_native_engine_cannot_even_be_imported():
    assert in_another_world(ELSEWHERE + USE.replace("ENGINE", "'wasm'")) == ("works", "")


@pytest.mark.usefixtures("host")
def test_auto_is_wasm_there():
    assert in_another_world(ELSEWHERE + USE.replace("ENGINE", "'auto'")) == ("works", "")


@pytest.mark.usefixtures("host")
def test_it_runs_where_there_is_no_fork():
    assert in_another_world(ELSEWHERE + NO_FORK + USE.replace("ENGINE", "'wasm'")) == ("works", "")


@pytest.mark.usefixtures("host")
def test_part_of_a_processor_is_refused_where_nothing_can_hold_it():
    script = (
        "from belljar import InvalidRequest, Limits, Sandbox\n"
        "try: Sandbox('wasm', limits=Limits(cpus=0.5))\n"
        "except InvalidRequest as refused: print(refused)"
    )
    said, _ = in_another_world(ELSEWHERE + script)
    assert "less than one cpu cannot be enforced" in said


@pytest.mark.usefixtures("host")
def test_there_the_memory_of_the_whole_process_is_watched():
    script = """
from belljar import Limits, Policy, Sandbox
with Sandbox("wasm", limits=Limits(memory_mb=64, disk_mb=16), policy=Policy(packages="none")) as sandbox:
    ran = sandbox.run('''
from pyodide.code import run_js
run_js("globalThis.hoard = []; while (hoard.length < 100) hoard.push(new Uint8Array(32 << 20).fill(1))")
''')
    print(ran.status, ran.error.code)
    print(sandbox.run("1 + 1").value)
"""
    assert in_another_world(ELSEWHERE + script) == ("out_of_memory MEMORY_ERROR\n2", "")
