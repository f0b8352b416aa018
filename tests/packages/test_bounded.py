"""What runs on the host for a package has bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from belljar.engines.wasm.assembly import run_script
from belljar.errors import StartFailed
from belljar.packages.bounded import Budget, run

GREEDY = [sys.executable, "-c", "import time; time.sleep(0.3); x = bytearray(3 << 30)"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be told from outside")


def test_a_client_that_takes_too_much_memory_fails(tmp_path: Path) -> None:
    code, _, said = run(GREEDY, tmp_path, {}, Budget.of(60, 1_000_000))
    assert (code, said.splitlines()[-1]) == (1, "MemoryError")


def test_a_compiler_that_takes_too_much_memory_or_time_fails() -> None:
    with pytest.raises(StartFailed, match="MemoryError"):
        run_script(GREEDY, memory_bytes=1 << 30)
    with pytest.raises(StartFailed, match="timed out"):
        run_script([sys.executable, "-c", "while True: pass"], seconds=0.5)
