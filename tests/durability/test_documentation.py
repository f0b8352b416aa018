"""The example of docs/durability.md does what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_docs import DOCS, ROOT, examples


@pytest.mark.usefixtures("native")
def test_the_example_of_the_page_about_durability_runs(tmp_path: Path):
    (example,) = examples(DOCS / "durability.md")
    env = {**os.environ, "BELLJAR_STATE_DIR": str(tmp_path), "BELLJAR_POOL_SIZE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=env
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the state after run 1 was restored: it was put to sleep, as asked\n"
    assert list((tmp_path / "hosts").iterdir()) == []
