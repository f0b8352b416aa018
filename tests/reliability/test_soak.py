"""A short soak; `python -m benchmarks.soak` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_sandboxes_of_every_ending_leave_everything_as_it_was(native: None):
    command = [sys.executable, "-m", "benchmarks.soak", "--count", "30", "--workers", "4", "--durable", "--seed", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert set(found["ended"]) == {"ok", "timeout", "crashed", "out_of_memory"}
    assert found["before"] == found["after"]
