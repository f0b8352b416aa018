"""A state folder on a disk that really is full, and then is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from pathlib import Path
from belljar import Sandbox, StoreFailed, compose
from belljar.service.base import LIBRARY
folder = Path(os.environ["BELLJAR_STATE_DIR"])
sandbox, plain = Sandbox("native", durable=True), Sandbox("native")
sandbox.run("x = 1")
here = compose.local_host()
here.background.wait(here.host.session(LIBRARY, sandbox.id).guardian.settle())
filler = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
try:
    while True:
        os.write(filler, bytes(512))
except OSError as full:
    print(full.strerror)
print(sandbox.run("x += 1; x").value, plain.run("2").value)
for act in (sandbox.hibernate, lambda: Sandbox("native", durable=True)):
    try:
        act()
    except StoreFailed as refused:
        print("refused" if "make room" in str(refused) else refused)
print(sandbox.run("x").state)
(folder / "filler").unlink()
os.close(filler)
print(sandbox.hibernate(), sandbox.run("x").value)
sandbox.close()
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can mount a small disk")
def test_a_full_disk_refuses_what_is_new_and_everything_else_goes_on(native: None, tmp_path: Path):
    mount = f'mount -t tmpfs -o size=400k small {tmp_path} && exec {sys.executable} -c "$0"'
    env = {**os.environ, "BELLJAR_STATE_DIR": str(tmp_path), "BELLJAR_POOL_SIZE": "0"}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, SCRIPT], capture_output=True, text=True, timeout=120, check=False, env=env
    )
    assert done.stdout.splitlines() == [
        "No space left on device", "2 2", "refused", "refused", "kept", "True 2",
    ], done.stderr  # fmt: skip
