"""One process at a time, and none left waiting for a dead one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from belljar.packages.lock import alone

HOLD = """
import sys, time
from pathlib import Path
from belljar.packages.lock import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_waits_until_the_first_is_done_or_dead(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "folder" / "x.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        waited = []

        def waiting() -> None:
            waited.append(holder.poll())
            holder.kill()

        with alone(lock, waiting):
            assert waited == [None]
            assert holder.wait(10) != 0


def test_a_lock_that_a_dead_process_left_behind_holds_nobody_up(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    lock.write_text("left over")
    with alone(lock, lambda: (_ for _ in ()).throw(AssertionError("there was nobody to wait for"))):
        pass
    with alone(lock):
        pass


def test_nothing_of_the_packages_layer_needs_a_module_that_only_linux_has() -> None:
    code = """
import sys, types
import belljar.packages.missing, belljar.packages.base  # once as it is: the standard library keeps its own platform
for name in [name for name in sys.modules if name.startswith("belljar")]:
    del sys.modules[name]
for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
sys.platform = "win32"
import belljar.packages.missing, belljar.packages.base
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
