"""The examples of docs/state.md do what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pages import DOCS, ROOT, examples


@pytest.mark.usefixtures("native")
def test_the_examples_of_the_page_about_state_run(tmp_path: Path):
    first, forks, keys = examples(DOCS / "state.md")
    env = {**os.environ, "BELLJAR_STATE_DIR": str(tmp_path), "BELLJAR_POOL_SIZE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", first + forks + keys],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    saved, skipped, last, lengths = done.stdout.splitlines()
    assert saved == "['math', 'rows', 'total']"
    assert "generator" in skipped
    assert last == "10.0 restored"
    assert lengths == "1000 1000"
    assert (tmp_path / "checkpoint.key").stat().st_mode & 0o777 == 0o600
