"""Every example runs as it is, in a folder of its own, and says what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "async_runs.py": ["168 primes below 1000", "1229 primes below 10000", "step 0\nstep 1\nstep 2\n"],
    "checkpoint.py": [
        "with statistics, scores, mean",
        "without lines: a generator",
        "with 0: 3 (restored)",
        "with 100: 28 (restored)",
    ],
    "durable.py": ["ended by signal 9", "['monday', 'tuesday'] (restored: ", "its host ended without closing it"],
    "engines.py": ["native: Python 3", "wasm: Python 3.14", "on emscripten", "[8.0, 5.0]"],
    "errors.py": ["IndexError on line 3", "timeout after 1 s; variables are kept", "exit code 134", "code is empty"],
    "files.py": ["report.json (29 bytes, application/json)", '"people": 1212', "at home: report.json 29 bytes"],
    "network.py": [
        "listed: welcome",
        "not listed: ProxyError\n  elsewhere.example:443: host is not in Policy.network",
        "192.0.2.1:443 was refused: network is off",
    ],
    "mounts.py": [
        "native: 2 notes, 11 words",
        "native: [Errno 30] Read-only file system",
        "native: Seen at once",
        "wasm: 2 notes, 11 words",
        "wasm: [Errno 69] Read-only file system",
        "wasm: Seen at once",
    ],
    "quickstart.py": ["count  3.0", "\n7\n", "to stdout"],
    "tree_search.py": ["error at the start: ", "step 1: square ", "step 3: ", "step 1: square > step 2: "],
    "tour.py": [
        "native engine",
        "Hello from Python",
        "February   135",
        "625 sold in 4 months",
        "network is off",
        " ms",
    ],
}


def test_every_example_is_tried_here():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(SAYS)


@pytest.mark.parametrize("name", sorted(SAYS))
@pytest.mark.usefixtures("native")
def test_example_runs(name: str, tmp_path: Path):
    env = {**os.environ, "BELLJAR_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [said for said in SAYS[name] if said not in done.stdout] == []
    if name == "tour.py":
        assert (tmp_path / "tour-output/plot.png").read_bytes().startswith(b"\x89PNG")
