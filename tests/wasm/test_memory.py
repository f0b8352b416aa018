"""Memory under WebAssembly: Python's own is bounded by memory_mb, and what does not fit is an error, not an end."""

from __future__ import annotations

import pytest

from belljar import Limits, Policy, Sandbox
from belljar.engines.wasm.engine import OVERHEAD_MB

ARRAY = "import numpy as np\nnp.ones((_args << 20) // 8).sum().item()"
HOARD = "hoard = []\nwhile True: hoard.append(bytes(1 << 20))"


@pytest.mark.usefixtures("host")
def test_an_array_over_the_limit_is_a_memory_error_and_the_sandbox_goes_on():
    with Sandbox("wasm", limits=Limits(memory_mb=256)) as sandbox:
        sandbox.run("kept = 'kept'")
        ran = sandbox.run(ARRAY, args=320)
        assert (ran.status, ran.error.name, ran.error.code) == ("out_of_memory", "MemoryError", "MEMORY_ERROR")
        assert "320. MiB" in ran.error.value
        again = sandbox.run("kept")
        assert (again.value, again.state) == ("kept", "kept")
        assert sandbox.run(ARRAY, args=64).value == (64 << 20) // 8


@pytest.mark.usefixtures("host")
def test_a_hoard_ends_below_the_limit_and_can_be_dropped():
    with Sandbox("wasm", limits=Limits(memory_mb=200), policy=Policy(packages="none")) as sandbox:
        ran = sandbox.run(HOARD)
        assert (ran.status, ran.state) == ("out_of_memory", "kept")
        count = sandbox.run("count = len(hoard)\nhoard.clear()\ncount").value
        assert 100 < count < 200
        assert sandbox.run("len(bytes(80 << 20))").value == 80 << 20


@pytest.mark.usefixtures("host")
def test_a_limit_below_the_science_snapshot_boots_without_it_and_imports_what_fits():
    with Sandbox("wasm", limits=Limits(memory_mb=64)) as sandbox:
        assert sandbox.run("import sys\n'numpy' in sys.modules").value is False
        assert sandbox.run("import numpy as np\nnp.arange(10).sum().item()").value == 45
        ran = sandbox.run("import pandas, matplotlib.pyplot, lxml.etree")
        assert (ran.status, ran.error.code, ran.state) == ("out_of_memory", "MEMORY_ERROR", "kept")
        assert sandbox.run("np.arange(10).sum().item()").value == 45


@pytest.mark.usefixtures("host")
def test_a_larger_limit_is_really_there():
    with Sandbox("wasm", limits=Limits(memory_mb=768)) as sandbox:
        assert sandbox.run(ARRAY, args=480).value == (480 << 20) // 8


@pytest.mark.usefixtures("host")
def test_the_process_as_a_whole_stays_within_the_documented_bound():
    limits = Limits(memory_mb=128, disk_mb=32)
    with Sandbox("wasm", limits=limits) as sandbox:
        sandbox.run("import regex, lxml.etree, sympy")
        sandbox.run("with open('big', 'wb') as file:\n    for _ in range(40): file.write(bytes(1 << 20))")
        peak = sandbox.run(HOARD).usage.peak_memory_bytes
        assert 64 << 20 < peak <= (limits.memory_mb + OVERHEAD_MB + limits.disk_mb) * 1.1 * (1 << 20)
        assert sandbox.run("1 + 1").value == 2


@pytest.mark.usefixtures("host")
def test_files_over_the_disk_limit_are_a_disk_error_and_can_be_deleted():
    with Sandbox("wasm", limits=Limits(disk_mb=8), policy=Policy(packages="none")) as sandbox:
        ran = sandbox.run("with open('big', 'wb') as file:\n    for _ in range(9): file.write(bytes(1 << 20))")
        assert (ran.status, ran.error.name, ran.error.code) == ("error", "OSError", "DISK_LIMIT")
        assert (
            sandbox.run("import os\nos.remove('big')\nlen(open('small', 'wb').write(bytes(7 << 20)).to_bytes(8))").value
            == 8
        )
        assert len(sandbox.files.read("small")) == 7 << 20
