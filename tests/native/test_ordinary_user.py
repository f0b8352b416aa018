"""As an ordinary user: with a delegated control group everything holds; without one the engine refuses, or says degraded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.native import lab
from tests.reliability import traces

from belljar.packages import companion

USER = 54321  # nobody's on any machine that we know of
PYTHON = "/usr/bin/python3"
SOURCES = Path(__file__).parents[2] / "src"
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user"),
    pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"another user needs {PYTHON}"),
    pytest.mark.usefixtures("native"),
]

AS_USER = """
import json, os, sys
os.setgroups([]); os.setresgid({user}, {user}, {user}); os.setresuid({user}, {user}, {user})
os.chdir({home!r})
sys.path.insert(0, {sources!r})
from belljar import EngineUnavailable, Limits, Policy, Sandbox
def sandbox(**limits): return Sandbox("native", policy=Policy(packages="none"), limits=Limits(**limits))
"""

PROGRAM = """
const tried = (act) => { try { return act(); } catch (error) { return error.name; } };
const [secret] = Deno.args;
if (!secret) { const held = []; while (true) held.push(new Uint8Array(8 << 20).fill(1)); }
const written = tried(() => Deno.writeTextFileSync("/runtime/main.js", "changed")) === undefined ? "done" : "refused";
const read = [secret, "/proc/self/mountinfo"].map((path) => tried(() => Deno.readTextFileSync(path)));
console.log(...read, written, Deno.uid(), JSON.stringify(Deno.env.toObject()));
"""

Script = Callable[..., dict[str, Any]]


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home and a copy of our sources that the user can read, in a folder of which everybody can read the parents."""
    folder = Path("/var/tmp") / f"belljar-test-{uuid.uuid4().hex}"
    shutil.copytree(SOURCES, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path, content in companion.files().items():  # which another Python does not have
        if path[-2] == companion.NAME:
            (folder / "src" / companion.NAME).mkdir(exist_ok=True)
            (folder / "src" / companion.NAME / path[-1]).write_bytes(content)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "home").mkdir()
    os.chown(folder / "home", USER, USER)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def delegated() -> Iterator[list[Path]]:
    """Control groups that belong to the user, one per controller of version 1, or one of version 2."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    name = f"user-{uuid.uuid4().hex}"
    parents = [
        traces.CGROUPS / controller / own[controller].lstrip("/") for controller in CONTROLLERS if controller in own
    ]
    if len(parents) < len(CONTROLLERS):
        pytest.skip("control groups of version 1 are not separate here; delegation is systemd's affair on version 2")
    folders = [parent / name for parent in parents]
    for folder in folders:
        folder.mkdir()
        for path in (folder, folder / "cgroup.procs", folder / "tasks"):
            os.chown(path, USER, USER)
    yield folders
    for folder in folders:
        assert [path for path in folder.iterdir() if path.is_dir()] == []
        folder.rmdir()


@pytest.fixture
def script(home: Path) -> Script:
    """Run code as the user, in these control groups, and read the JSON that it prints."""

    def run(code: str, groups: list[Path] | None = None, **env: str) -> dict[str, Any]:
        joins = "".join(
            f"with open({str(path / 'cgroup.procs')!r}, 'w') as file: file.write('0')\n" for path in groups or ()
        )
        setup = AS_USER.format(user=USER, home=str(home / "home"), sources=str(home / "src"))
        done = subprocess.run(
            [PYTHON, "-I", "-W", "error", "-c", joins + setup + code], capture_output=True, text=True, timeout=120,
            env={"HOME": str(home / "home"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **env},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        read: dict[str, Any] = json.loads(done.stdout)
        return read

    return run


def test_with_a_delegated_control_group_everything_holds(script: Script, delegated: list[Path]):
    said = script(
        """
with sandbox(memory_mb=128, processes=16, disk_mb=8) as sb:
    sb.files.write("in/data.txt", "given")
    first = sb.run("kept = open('in/data.txt').read(); kept")
    print(json.dumps({
        "value": first.value, "degraded": first.degraded, "uid": sb.run("import os; os.getuid()").value,
        "memory": sb.run("x = bytearray(1 << 30)").status,
        "pids": sb.run("import os, time\\nwhile True:\\n    if os.fork() == 0: time.sleep(20)").error.code,
        "disk": sb.run("open('/tmp/x', 'wb').write(b'x' * (9 << 20))").error.code,
        "timeout": sb.run("while True: pass", timeout=1).status,
        "kept": sb.run("kept").value,
        "crash": sb.run("os.kill(os.getpid(), 11)").status,
        "after": sb.run("1").state,
        "cpu": first.usage.cpu_s > 0, "peak": first.usage.peak_memory_bytes > 1 << 20,
        "files": [entry.path for entry in sb.files.list()],
    }))
""",
        delegated,
    )
    assert said == {
        "value": "given", "degraded": [], "uid": 1000, "memory": "out_of_memory", "pids": "PROCESS_LIMIT",
        "disk": "DISK_LIMIT", "timeout": "timeout", "kept": "given", "crash": "crashed", "after": "reset",
        "cpu": True, "peak": True, "files": ["in", "in/data.txt"],
    }  # fmt: skip


def test_an_out_of_memory_kill_is_told_to_an_ordinary_user_too(script: Script, delegated: list[Path]):
    said = script(
        """
with sandbox(memory_mb=96) as sb:
    ran = sb.run("with open('/tmp/big', 'wb') as file:\\n    while True: file.write(bytes(1 << 20))")
    print(json.dumps([ran.status, ran.state, sb.run("1").state]))
""",
        delegated,
    )
    assert said == ["out_of_memory", "reset", "reset"]


def test_a_fork_of_a_users_sandbox_goes_through_a_checkpoint_and_says_why(script: Script, delegated: list[Path]):
    said = script(
        """
with sandbox() as sb:
    sb.run("rows = [1]")
    with sb.fork()[0] as fork:
        ran = fork.run("rows.append(2); rows")
        print(json.dumps([ran.value, sb.run("rows").value, ran.state, ran.state_reason]))
""",
        delegated,
    )
    assert said[:3] == [[1, 2], [1], "restored"]
    assert "which only root can give" in said[3]


def test_without_one_the_engine_refuses_and_says_what_to_do(script: Script):
    said = script("""
try:
    sandbox()
except EngineUnavailable as refused:
    print(json.dumps({"said": str(refused), "missing": [layer.name for layer in refused.health.missing]}))
""")
    assert said["missing"] == ["memory", "processes"]
    assert "systemd-run --user --scope -p Delegate=yes" in said["said"]
    assert "BELLJAR_ALLOW_DEGRADED=1" in said["said"]


def test_with_the_operators_leave_it_runs_and_says_degraded(script: Script):
    said = script(
        """
with sandbox() as sb:
    ran = sb.run("6 * 7")
    print(json.dumps([ran.value, ran.degraded, sb.run("open('/etc/shadow')").error.name]))
""",
        BELLJAR_ALLOW_DEGRADED="1",
    )
    assert said == [42, ["memory", "processes"], "FileNotFoundError"]


def test_the_users_files_are_not_inside(script: Script, delegated: list[Path], home: Path):
    (home / "home/secret.txt").write_text("secret")
    said = script(
        f"""
with sandbox() as sb:
    print(json.dumps([sb.run("open({str(home / "home/secret.txt")!r})").error.name, sb.run("import os; os.path.exists({str(home)!r})").value]))
""",
        delegated,
    )
    assert said == ["FileNotFoundError", False]


@pytest.mark.skipif(not lab.DENO.exists(), reason="Deno is not installed beside this Python")
def test_a_foreign_program_is_confined_too(script: Script, delegated: list[Path], home: Path):
    shutil.copy(lab.DENO, home / "deno")
    (home / "home/secret.txt").write_text("secret")
    (home / "runtime").mkdir(mode=0o755)
    (home / "runtime/main.js").write_text(PROGRAM)
    said = script(
        f"""
import asyncio, pathlib
from belljar.engines.base import Spec
from belljar.engines.confinement import Program
from belljar.engines.native.engine import NativeEngine
from belljar.packages.environment import Environment, default_python
from belljar.settings import Settings
home = pathlib.Path({str(home)!r})
folders = {{"/bin/deno": home / "deno", "/runtime": home / "runtime"}}
spec = Spec("program", Environment(default_python()), Limits(memory_mb=64, processes=16))
async def run(engine, *args):
    argv = ("/bin/deno", "run", "--allow-all", "--no-remote", "--no-code-cache", "/runtime/main.js", *args)
    program = await engine.confine(Program(argv, folders, overhead_mb=128, threads=16), spec)
    end = await asyncio.wait_for(asyncio.shield(program.exit), 60)
    said = os.read(program.stdout, 4096).decode()
    await program.close()
    return said, end.code, end.signal, end.out_of_memory, program.degraded
async def main():
    engine = NativeEngine("native", Settings.load())
    try:
        return [await run(engine, str(home / "home/secret.txt")), await run(engine)]
    finally:
        await engine.close()
print(json.dumps(asyncio.run(main())))
""",
        delegated,
    )
    assert said == [["NotFound NotFound refused 1000 {}\n", 0, None, False, []], ["", None, 9, True, []]]


def test_an_ordinary_user_can_add_packages_to_a_live_sandbox(script: Script, delegated: list[Path], home: Path):
    layer = home / "home" / "layer"
    layer.mkdir()
    (layer / "added.py").write_text("answer = 42")
    for path in (layer, layer / "added.py"):
        os.chown(path, USER, USER)
    said = script(
        f"""
from dataclasses import replace
from pathlib import Path
from belljar import compose
with sandbox() as sb:
    here = compose.local_host()
    session = here.host.session('', sb.id)
    before = sb.run("x = 1; import os; os.listdir('/packages/site')").value
    extended = replace(session.spec.environment, layer=Path({str(layer)!r}), digest="other")
    here.background.wait(session.process.provide(extended))
    here.background.wait(session.ask_now({{"type": "configure", "path": extended.path}}))
    after = sb.run("import added; open('/packages/site/y', 'w')")
    table = sb.run("open('/proc/self/mountinfo').read()").value
    print(json.dumps([before, sb.run("added.answer + x").value, after.error.name, {str(home)!r} in table]))
""",
        delegated,
    )
    assert said == [[], 43, "OSError", False]


def test_an_ordinary_user_mounts_what_he_can_read_himself(script: Script, delegated: list[Path], home: Path):
    vault = home / "home" / "vault"
    vault.mkdir(mode=0o700)
    (vault / "own.txt").write_text("his own")
    (vault / "own.txt").chmod(0o600)
    (vault / "roots.txt").write_text("root's")
    (vault / "roots.txt").chmod(0o600)
    for path in (vault, vault / "own.txt"):
        os.chown(path, USER, USER)
    said = script(
        f"""
policy = Policy(packages="none", mounts={{"/data": {str(vault)!r}}})
with Sandbox("native", policy=policy) as sb:
    own = sb.run("open('/data/own.txt').read()").value
    errors = [sb.run(code).error.name for code in ("open('/data/roots.txt')", "open('/data/x', 'w')", "open('/data/own.txt', 'a')")]
    table = sb.run("open('/proc/self/mountinfo').read()").value
    print(json.dumps([own, errors, {str(home)!r} in table]))
""",
        delegated,
    )
    assert said == ["his own", ["PermissionError", "OSError", "OSError"], False]
