"""Where a sandbox boots from: with and without snapshots it answers the same, and a damaged one is never used in silence."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import probe

from belljar import Limits, Policy, Sandbox, StartFailed
from belljar.compose import LocalHost
from belljar.engines.base import Spec
from belljar.engines.wasm.assembly import Runtime
from belljar.engines.wasm.engine import WasmEngine, snapshot_for
from belljar.packages.environment import Environment

PROGRAMS = [
    "import numpy as np, pandas as pd\npd.DataFrame({'x': np.arange(5), 'y': list('abcde')}).describe(include='all')",
    "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.title('squares')\nplt.show()",
    "import regex\nfrom lxml import etree\n[regex.findall(r'\\p{Lu}', 'aB'), etree.fromstring('<a>x</a>').text]",
    "import sys\nsorted(set(sys.path)), sys.argv, sys.flags.optimize, sys.getrecursionlimit()",
    "import os\ndict(os.environ), os.getcwd(), sorted(os.listdir('/')), os.listdir('.')",
    "list({'a', 'b', 'c', 'd', 'e', 'f'})",
    "import asyncio\nawait asyncio.gather(asyncio.sleep(0.01, 1), asyncio.sleep(0, 2))",
    "print('to', 'stdout')\nimport sys\nprint('to stderr', file=sys.stderr)\ninput()",
    "def f():\n    return {}['missing']\nf()",
    "import nosuchmodule_at_all.really",
    "import warnings\nwarnings.warn('once')",
    "import gc\ngc.collect() >= 0, gc.isenabled(), gc.get_threshold()",
    "import threading\nthreading.current_thread().name, threading.active_count()",
    "import signal\nsignal.getsignal(signal.SIGINT) is not None",
]


@pytest.fixture
def booting(engine: WasmEngine) -> Iterator[Callable[..., Runtime]]:
    """Change what the engine boots from."""

    def change(**facts: object) -> Runtime:
        changed = replace(probe.runtime(engine), **facts)
        probe.use_runtime(engine, changed)
        return changed

    genuine = probe.runtime(engine)
    yield change
    probe.use_runtime(engine, genuine)


@pytest.fixture
def copied(booting: Callable[..., Runtime], engine: WasmEngine, tmp_path: Path) -> Iterator[Path]:
    """The engine boots from a copy of its runtime that a test may damage."""
    folder = tmp_path / "runtime"
    shutil.copytree(probe.runtime(engine).folder, folder, copy_function=_link)
    tmp_path.chmod(0o755)
    booting(folder=folder)
    yield folder
    shutil.rmtree(folder)


def _link(source: str, target: str) -> None:
    """A link costs nothing; whoever damages a file replaces it first."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def damage(path: Path, change: Callable[[bytearray], bytes | bytearray]) -> None:
    content = bytearray(path.read_bytes())
    path.unlink()
    path.write_bytes(change(content))


def answers(sandbox: Sandbox) -> list[object]:
    told = []
    for program in PROGRAMS:
        ran = sandbox.run(program)
        said = (ran.error.name, ran.error.value, ran.error.traceback) if ran.error else None
        told.append((ran.status, ran.value, ran.text, ran.stdout, ran.stderr, said, len(ran.results), ran.files))
    return told


@pytest.mark.long
def test_booting_plainly_gives_the_same_answers_but_draws_differently(wasm: Sandbox, booting: Callable[..., Runtime]):
    draw = "import random, uuid, os\n[random.random(), str(uuid.uuid4()), os.urandom(4).hex()]"
    from_snapshot = answers(wasm)
    booting(snapshots={})
    with Sandbox("wasm") as sandbox:
        plainly, drawn = answers(sandbox), sandbox.run(draw).value
    for program, one, two in zip(PROGRAMS, from_snapshot, plainly, strict=True):
        assert one == two, program
    with Sandbox("wasm", policy=Policy(packages="none")) as sandbox:
        assert len({*drawn, *sandbox.run(draw).value}) == 6


def test_the_largest_snapshot_that_leaves_room_is_taken():
    runtime = Runtime(Path("/"), Path("/"), "", {"base": 40 << 20, "science": 110 << 20})
    bare, full = (Environment(Path("/"), site) for site in (None, Path("/")))

    def taken(memory_mb: int, environment: Environment, snapshots: dict[str, int] = runtime.snapshots) -> str | None:
        spec = Spec("", environment, Limits(memory_mb=memory_mb))
        return snapshot_for(replace(runtime, snapshots=snapshots), spec)

    assert [taken(mb, full) for mb in (512, 126, 125, 64)] == ["science", "science", "base", "base"]
    assert taken(512, bare) == "base"
    assert taken(512, full, {"base": 40 << 20}) == "base"
    assert taken(512, full, {}) is None


@pytest.mark.parametrize(
    "name",
    [
        "science.bin",
        "science.json",
        "science.libraries.json",
        "science.libraries.bin",
        "science.cold.json",
        "science.cold.bin",
        "restored.wasm",
        "late.json",
        "packages.bin",
        "kernel.json",
        "pyodide.asm.mjs",
    ],
)
def test_a_missing_file_is_a_start_that_fails_and_says_so(copied: Path, name: str):
    (copied / name).unlink()
    with pytest.raises(StartFailed, match="did not come up"):
        Sandbox("wasm")


def test_a_snapshot_cut_short_is_not_used(copied: Path):
    damage(copied / "science.bin", lambda content: content[: len(content) // 2])
    with pytest.raises(StartFailed, match="shorter than it says"):
        Sandbox("wasm")


def test_a_cold_half_cut_short_is_not_used(copied: Path):
    damage(copied / "science.cold.bin", lambda content: content[: len(content) // 2])
    with pytest.raises(StartFailed, match="shorter than its index says"):
        Sandbox("wasm")


@pytest.mark.parametrize("which", ["true", "start === 0", "start > 0"])
def test_a_memory_that_comes_late_is_waited_for(copied: Path, which: str):
    begin = b"async function fill(heap, [start, length], file) {"
    wait = f"if ({which}) await new Promise((go) => setTimeout(go, 400));".encode()
    damage(copied / "python.js", lambda content: content.replace(begin, begin + wait))
    assert wait in (copied / "python.js").read_bytes()
    with Sandbox("wasm") as sandbox:
        assert sandbox.run("import pandas\nlen(pandas.DataFrame({'x': [1, 2]}))").value == 2


@pytest.mark.parametrize(("expected", "is_up"), [("NotCapable", True), ("Http", False)])
def test_the_real_fetch_is_refused_like_a_connection(copied: Path, expected: str, is_up: bool):
    """The trials of a start do not load it: here it is tried, as it was before our own took its place."""
    place = b"sendText(bridge.start("
    trial = "if (await genuine('http://127.0.0.1:49151/').then(() => 'through', ({ name }) => name) !== '%s') return tell(71);"
    keep = b"const genuine = globalThis.fetch;\n"
    damage(copied / "python.js", lambda content: keep + content.replace(place, (trial % expected).encode() + place))
    assert b"then(() => 'through'" in (copied / "python.js").read_bytes()
    if not is_up:
        with pytest.raises(StartFailed):
            Sandbox("wasm")
        return
    with Sandbox("wasm") as sandbox:
        assert sandbox.run("1 + 1").value == 2


def test_a_snapshot_of_other_libraries_is_not_used(copied: Path):
    damage(copied / "science.json", lambda content: content.replace(b'{"path": "', b'{"path": "/other', 1))
    with pytest.raises(StartFailed, match="there is no /other"):
        Sandbox("wasm")


def test_a_kernel_that_is_not_ours_is_refused(copied: Path):
    damage(copied / "base.bin", lambda content: content.replace(_digest(), b"0" * len(_digest())))
    with pytest.raises(StartFailed, match="not the one that this Belljar brought"):
        Sandbox("wasm", policy=Policy(packages="none"))


def _digest() -> bytes:
    from belljar_kernel import digest

    return digest().encode("ascii")


def test_a_broken_start_leaves_nothing_and_the_next_one_works(
    copied: Path, booting, engine: WasmEngine, host: LocalHost
):
    before = host.host.sessions()
    whole = (copied / "base.bin").read_bytes()
    damage(copied / "base.bin", lambda content: content[:4096])
    with pytest.raises(StartFailed):
        Sandbox("wasm", policy=Policy(packages="none"))
    assert host.host.sessions() == before
    (copied / "base.bin").write_bytes(whole)
    with Sandbox("wasm", policy=Policy(packages="none")) as sandbox:
        assert sandbox.run("1 + 1").value == 2


def test_names_that_are_not_exported_are_found_when_they_are_asked_for(wasm: Sandbox):
    ran = wasm.run("import ctypes\nask = ctypes.pythonapi.PyLong_AsLong\nask.argtypes = [ctypes.py_object]\nask(41)")
    assert ran.value == 41
    assert wasm.run("ctypes.c_int.in_dll(ctypes.pythonapi, 'Py_NoSiteFlag').value in (0, 1)").value is True
    for name in ("no_such_name", "constructor", "toString"):
        assert wasm.run(f"ctypes.pythonapi.{name}").error.name == "AttributeError"


def test_a_function_has_one_address_for_python_and_for_libraries(wasm: Sandbox):
    code = """
import ctypes
getattr_slot = ctypes.c_uint32.from_address(id(int) + 18 * 4).value
getattr_slot == ctypes.cast(ctypes.pythonapi.PyObject_GenericGetAttr, ctypes.c_void_p).value
"""
    assert wasm.run(code).value is True


def test_scripts_of_the_runtime_cannot_be_imported_by_the_code(wasm: Sandbox):
    code = """
from pyodide.code import run_js
run_js("globalThis.told = ''; import('file:///runtime/control.js').then(() => told = 'in', (e) => told = String(e)); 0")
"""
    wasm.run(code)
    until = time.monotonic() + 20
    while not (told := wasm.run("run_js('told')").value) and time.monotonic() < until:
        time.sleep(0.05)
    assert "read access" in told
