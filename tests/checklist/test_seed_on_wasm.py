"""Checklist rows that the seeds describe on Pyodide, shown on the wasm engine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checklist import test_seed_000, test_seed_001
from tests.conftest import forget

from belljar import Limits, Sandbox, compose
from belljar.engines.wasm.engine import OVERHEAD_MB


@pytest.fixture(scope="module")
def wasm() -> Iterator[Sandbox]:
    with Sandbox("wasm") as sandbox:
        yield sandbox


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever asks a package index finds nobody."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    here = compose.local_host()
    forget(here)
    yield
    forget(here)


def test_a08_the_science_stack_is_there(wasm):
    # Importing the last two takes seconds; they are imported and used in tests/wasm/test_packages.py.
    ex = wasm.run(
        "import numpy, pandas, matplotlib, importlib.metadata, importlib.util\n"
        "for module in (numpy, pandas, matplotlib): print(module.__name__, module.__version__)\n"
        "for name, module in (('scipy', 'scipy'), ('scikit-learn', 'sklearn')):\n"
        "    print(importlib.util.find_spec(module).name, importlib.metadata.version(name))"
    )
    assert ex.status == "ok"
    names, versions = zip(*(line.split() for line in ex.stdout.splitlines()), strict=True)
    assert names == ("numpy", "pandas", "matplotlib", "scipy", "sklearn")
    assert all(version[0].isdigit() for version in versions)


def test_a09_a_package_is_loaded_when_the_code_imports_it(wasm):
    before = wasm.run("import sys\n'tabulate' in sys.modules").value
    ex = wasm.run("from tabulate import tabulate\ntabulate([['a', 1]], tablefmt='plain')")
    assert (before, ex.status, ex.value) == (False, "ok", "a  1")


def test_a09_a_package_that_cannot_be_added_is_named(wasm, no_index):
    ex = wasm.run("import zzznosuchpackage")
    assert (ex.status, ex.error.code) == ("error", "MODULE_NOT_FOUND")
    assert "zzznosuchpackage" in ex.error.hint


@pytest.mark.long
def test_a32_attached_csv_and_excel_files_on_wasm(wasm):
    csv, excel = test_seed_000.sheets(wasm)
    ex = wasm.run(
        "import pandas as pd\n[len(pd.read_csv('orders.csv')), len(pd.read_excel('prices.xlsx'))]",
        files={"orders.csv": csv, "prices.xlsx": excel},
    )
    assert ex.value == [3, 2]


def test_a37_a_typo_is_named_and_gets_the_closest_name(wasm, no_index):
    ex = wasm.run("import nunpy")
    assert (ex.error.name, ex.error.value, ex.error.code) == (
        "ModuleNotFoundError",
        "No module named 'nunpy'",
        "MODULE_NOT_FOUND",
    )
    assert ex.error.hint == "No module is named 'nunpy'; did you mean 'numpy'?"


def test_a38_no_build_not_found_and_nobody_to_ask_are_told_apart(wasm, no_index):
    no_build = wasm.run("import torch").error.hint
    unknown = wasm.run("import zzznosuchpackage").error.hint
    assert "no build for the wasm engine" in no_build
    assert "the package index cannot be reached" in unknown
    assert "no build" not in unknown


def test_b06_the_parabola_is_one_png_on_wasm(wasm, program, decoded):
    test_seed_001.test_b06_the_parabola_is_one_png_of_more_than_one_colour(wasm, program, decoded)


def test_b07_several_figures_on_wasm(wasm, decoded):
    test_seed_001.test_b07_several_figures_are_captured_once_in_order_with_their_titles(wasm, decoded)


def test_b08_pil_images_on_wasm(wasm, decoded):
    test_seed_001.test_b08_pil_images_are_captured_as_png(wasm, decoded)


def test_b09_a_dataframe_on_wasm(wasm):
    test_seed_001.test_b09_a_dataframe_gives_rows_columns_dtypes_shape_and_a_table(wasm)


PROBES = {
    "env": "js.Deno.env.get('HOME')",
    "every env": "js.Deno.env.toObject()",
    "read": "js.Deno.readTextFileSync(_args)",
    "read of a folder": "list(js.Deno.readDirSync('/'))",
    "write": "js.Deno.writeTextFileSync(_args, 'broken')",
    "net": "js.Deno.listen(to_js({'port': 0}, dict_converter=js.Object.fromEntries))",
    "run": "js.Deno.Command.new('/bin/ls').outputSync()",
    "ffi": "js.Deno.dlopen('libc.so.6', js.Object.new())",
    "sys": "js.Deno.hostname()",
}


@pytest.mark.parametrize("permission", PROBES)
def test_e04_every_permission_is_off(wasm, tmp_path: Path, permission: str):
    canary = tmp_path / "canary.txt"
    canary.write_text("canary-e04")
    ex = wasm.run(f"import js\nfrom pyodide.ffi import to_js\nprint({PROBES[permission]})", args=str(canary))
    assert (ex.status, ex.stdout) == ("error", "")
    assert "NotCapable" in ex.stderr
    assert canary.read_text() == "canary-e04"


def test_e04_python_itself_sees_none_of_the_host(wasm, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOST_CANARY", "canary-e04")
    (tmp_path / "canary.txt").write_text("canary-e04")
    ex = wasm.run(
        "import os\nseen = repr(dict(os.environ))\n"
        "for path in (_args, '/etc/passwd', '/proc/self/environ'):\n"
        "    try: seen += open(path).read()\n    except OSError: pass\n"
        "print(seen, os.path.exists(os.path.dirname(_args)))",
        args=str(tmp_path / "canary.txt"),
    )
    assert "canary-e04" not in ex.stdout
    assert ex.stdout.endswith("False\n")


def test_e10_a_memory_limit_really_limits_the_data(wasm):
    limits = Limits(memory_mb=100, disk_mb=16)
    with Sandbox("wasm", limits=limits) as sandbox:
        ex = sandbox.run("data = bytes(300 << 20)")
        assert (ex.status, ex.error.code) == ("out_of_memory", "MEMORY_ERROR")
        ex = sandbox.run("data = []\nwhile True: data.append(bytes(1 << 20))")
        assert ex.status == "out_of_memory"
        assert ex.usage.peak_memory_bytes < (limits.memory_mb + OVERHEAD_MB + limits.disk_mb) * 1.1 * (1 << 20)
        assert sandbox.run("data.clear()\nlen(bytes(10 << 20))").value == 10 << 20


def test_e15_it_works_without_docker_and_without_a_network(wasm):
    script = textwrap.dedent("""
        import sys
        def refuse(event, args):
            if event in ("socket.connect", "socket.getaddrinfo") and "AF_UNIX" not in str(args[0]):
                raise RuntimeError(f"{event} {args}")
            if event == "subprocess.Popen" and "docker" in str(args):
                raise RuntimeError(f"{event} {args}")
        sys.addaudithook(refuse)
        from belljar import Sandbox
        with Sandbox("wasm") as sandbox:
            print(sandbox.run("import pandas as pd\\npd.Series([1, 2, 3]).sum().item()").value)
    """)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("HOME", "XDG_CACHE_HOME", "BELLJAR_CACHE_DIR", "PYTHONPATH")
    }
    env = kept | {"PATH": "/nonexistent", "DOCKER_HOST": "tcp://127.0.0.1:9", "BELLJAR_POOL_SIZE": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("6\n", 0), done.stderr


def test_e16_a_warm_run_takes_far_less_than_a_second(wasm):
    wasm.run("1 + 1")
    durations = []
    for _ in range(15):
        started = time.perf_counter()
        assert wasm.run("1 + 1").value == 2
        durations.append(time.perf_counter() - started)
    assert statistics.median(durations) < 0.3


def test_e17_files_written_in_the_sandbox_can_be_had(wasm, tmp_path: Path):
    ex = wasm.run("import os\nos.makedirs('out', exist_ok=True)\nopen('out/e17.bin', 'wb').write(bytes(range(256)))")
    assert [(file.path, file.size) for file in ex.files] == [("out/e17.bin", 256)]
    assert wasm.files.read("out/e17.bin") == bytes(range(256))
    assert wasm.files.download("out/e17.bin", tmp_path / "e17.bin").read_bytes() == bytes(range(256))
