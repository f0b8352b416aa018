"""Getting ready: several processes may do it at once, one works, and nothing half done is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import probe

from belljar.compose import LocalHost
from belljar.packages.pyodide import digest
from belljar.policy import Policy

PREPARE = """
import json, sys, time
from belljar import Policy, Sandbox, compose
from tests import probe
told = []
registry = compose.local_host().host.registry
installer, engine = registry.installer("wasm"), registry.engine("wasm")
print("ready", flush=True)
sys.stdin.readline()
installer.environment(Policy(), lambda message, done: told.append(message))
runtime = probe.runtime(engine)
print(json.dumps([str(runtime.folder), sorted(runtime.snapshots), runtime.failures, told]), flush=True)
with Sandbox("wasm") as sandbox:
    print(sandbox.run("import pandas\\nlen(pandas.DataFrame({'x': [1, 2]}))").value)
"""


@pytest.fixture
def cache(host: LocalHost, tmp_path: Path) -> Path:
    """A cache that has Pyodide and the pack of its packages, but no runtime yet."""
    known = host.settings.cache_dir / "wasm"
    probe.installer(host, "wasm").environment(Policy())
    fresh = tmp_path / "cache" / "wasm"
    fresh.mkdir(parents=True)
    for folder in (known / f"pyodide-{digest()}", *known.glob("packages-*")):
        (fresh / folder.name).symlink_to(folder)
    for folder in (tmp_path, tmp_path / "cache", fresh):
        folder.chmod(0o755)
    return tmp_path / "cache"


@pytest.mark.long
def test_two_processes_that_prepare_at_once_do_the_work_once(cache: Path):
    env = os.environ | {"BELLJAR_CACHE_DIR": str(cache), "BELLJAR_POOL_SIZE": "0"}
    both = [
        subprocess.Popen([sys.executable, "-c", PREPARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        for _ in range(2)
    ]  # fmt: skip
    assert [process.stdout.readline() for process in both] == ["ready\n", "ready\n"]
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=150)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    facts = [json.loads(answer[0]) for answer in answers]
    assert facts[0][:3] == facts[1][:3]
    assert facts[0][1:3] == [["base", "science"], []]
    worked = [told for *_, told in facts if any("snapshots" in message for message in told)]
    assert len(worked) == 1
    assert [answer[1] for answer in answers] == ["2", "2"]
    assert not list(cache.glob("wasm/.new-*"))
    assert len(list(cache.glob("wasm/runtime-*/runtime.json"))) == 1


def test_a_preparation_that_fails_leaves_nothing_half_done_and_says_what_failed(
    cache: Path, host: LocalHost, tmp_path: Path
):
    (cache / "wasm" / f"pyodide-{digest()}").unlink()
    real = host.settings.cache_dir / "wasm" / f"pyodide-{digest()}"
    copy = cache / "wasm" / f"pyodide-{digest()}"
    copy.mkdir()
    for entry in real.iterdir():
        if entry.name != "core":
            (copy / entry.name).symlink_to(entry)
    (copy / "core").mkdir()
    for entry in (real / "core").iterdir():
        if entry.name != "pyodide.mjs":
            (copy / "core" / entry.name).symlink_to(entry)
    (copy / "core" / "pyodide.mjs").write_text("// another version")
    env = os.environ | {"BELLJAR_CACHE_DIR": str(cache), "BELLJAR_POOL_SIZE": "0"}
    script = (
        "from belljar import Sandbox, StartFailed\ntry: Sandbox('wasm')\nexcept StartFailed as failed: print(failed)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=env)
    assert "pyodide.mjs is not the one of the pinned Pyodide" in done.stdout, done.stderr
    assert not list(cache.glob("wasm/.new-*"))
    assert not list(cache.glob("wasm/runtime-*/runtime.json"))
