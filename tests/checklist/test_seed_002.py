"""Checklist rows C: the run_python tool of seed 002, as far as the library goes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests import probe
from tests.forge import Forge, project
from tests.shop import wheel

from belljar import DiskFull, InvalidRequest, Limits, PathRefused, Policy, Sandbox
from belljar.packages.pythons import known_pythons


@pytest.mark.parametrize("code", ["", "   ", "\n\n", "\t"])
def test_c02_empty_code_is_refused_and_nothing_is_lost(shared, code):
    shared.run("kept = 1")
    with pytest.raises(InvalidRequest, match="code"):
        shared.run(code)
    assert shared.run("kept").value == 1


def test_c03_an_expression_statements_and_a_script_with_functions_all_run(shared, program):
    assert shared.run("print('Hello, World!')").stdout == "Hello, World!\n"
    assert shared.run(program("hello.py")).stdout == "Hello, World!\n2 + 2 = 4\n"
    assert shared.run(program("circle.py")).stdout == "Circle area: 78.54\n"
    numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert shared.run(program("fibonacci.py")).stdout == "".join(f"fib({i}) = {n}\n" for i, n in enumerate(numbers))


@pytest.mark.parametrize(
    ("written", "installed"),
    [
        ("pomelo", ["pomelo==2.1"]),
        ("pomelo>=1.3.0", ["pomelo==2.1"]),
        ("pomelo==1.5.2", ["pomelo==1.5.2"]),
        ("pomelo>=1.0,<2.0", ["pomelo==1.5.2"]),
        ("pomelo[more]", ["peel==1.0", "pomelo==2.1"]),
    ],
)
def test_c04_every_form_of_a_package_is_taken_and_the_version_is_reported(shop, written, installed):
    for version in ("1.0", "1.5.2", "2.1"):
        shop.sell(wheel("pomelo", version, {"pomelo.py": f"v = {version!r}"}, ["peel; extra == 'more'"]))
    shop.sell(wheel("peel", "1.0", {"peel.py": ""}))
    with Sandbox() as sandbox:
        ex = sandbox.run("import pomelo; print(pomelo.v)", packages=[written])
    assert (ex.packages_installed, ex.stdout) == (installed, installed[-1].partition("==")[2] + "\n")


def test_c04_a_package_from_git_is_refused_until_the_operator_allows_it(shop, apart, tmp_path, monkeypatch):
    forge = Forge(tmp_path)
    address = forge.commit("user/repo", project("tangelo", "1.0", {"tangelo.py": "v = 3"}))
    try:
        with Sandbox("native") as sandbox:
            with pytest.raises(InvalidRequest, match=r"not allowed here; .* BELLJAR_PACKAGE_SOURCES"):
                sandbox.run("1", packages=[address])
            allowed = replace(apart.settings, package_sources=(f"{forge.address}/",))
            probe.use_settings(monkeypatch, apart, allowed)
            ex = sandbox.run("import tangelo; tangelo.v", packages=[address])
    finally:
        forge.close()
    assert (ex.value, ex.packages_installed) == (3, ["tangelo==1.0"])


def test_c05_packages_are_there_before_the_code_and_are_reported(shop):
    shop.sell(wheel("quandong", "3.0", {"quandong.py": "x = 1"}))
    with Sandbox() as sandbox:
        ex = sandbox.run("import numpy, quandong; quandong.x", packages=["numpy>=1.21.0", "quandong"])
        version = sandbox.run("numpy.__version__").value
    assert (ex.value, ex.packages_installed) == (1, [f"numpy=={version}", "quandong==3.0"])


def test_c06_files_of_a_run_are_modules_too(fresh):
    files = {
        "calculator.py": "class Calculator:\n    def add(self, a, b):\n        return a + b",
        "data_processor.py": "def process_data(data):\n    return [x * 2 for x in data]",
    }
    code = (
        "from calculator import Calculator\nfrom data_processor import process_data\n\ncalc = Calculator()\n"
        "result = calc.add(10, 5)\nprint(f'10 + 5 = {result}')\n\ndata = [1, 2, 3, 4, 5]\n"
        "processed = process_data(data)\nprint(f'Processed data: {processed}')"
    )
    assert fresh.run(code, files=files).stdout == "10 + 5 = 15\nProcessed data: [2, 4, 6, 8, 10]\n"


def test_c07_files_may_be_in_folders_and_never_outside(fresh):
    assert fresh.run("import a.b; a.b.x", files={"a/b.py": "x = 5"}).value == 5
    for path in ("../x", "/etc/x"):
        with pytest.raises(PathRefused):
            fresh.run("1", files={path: "x"})


def test_c09_another_python_is_taken_by_its_command_and_one_that_is_missing_is_told():
    version = known_pythons()[0].rpartition(".")[0]
    with Sandbox("native", python=f"python{version}", policy=Policy(packages="none")) as sandbox:
        assert sandbox.run("import sys; '%d.%d' % sys.version_info[:2]").value == version
    with pytest.raises(InvalidRequest, match=r"there is no CPython 3\.77 on this machine; there are 3\."):
        Sandbox("native", python="python3.77")


def test_c13_environment_variables_pythonpath_and_mplbackend_are_effective(fresh):
    fresh.files.write("lib/tools.py", "NAME = 'from lib'")
    env = {"PYTHONPATH": "/workspace:/workspace/lib", "MPLBACKEND": "Agg", "GREETING": "hi"}
    ex = fresh.run(
        "import os, tools, matplotlib\n[os.environ['GREETING'], tools.NAME, matplotlib.get_backend().lower()]", env=env
    )
    assert ex.value == ["hi", "from lib", "agg"]
    assert fresh.run("import os\nos.getenv('GREETING')").value is None


def test_c14_the_working_folder_is_workspace_or_the_one_asked_for(shared):
    assert shared.run("import os\nos.getcwd()").value == "/workspace"
    assert shared.run("os.getcwd()", cwd="/workspace/made/for/this").value == "/workspace/made/for/this"
    assert shared.run("os.getcwd()").value == "/workspace"


def test_c15_thirty_seconds_are_the_default_and_one_to_three_hundred_may_be_asked_for(shared):
    assert Limits().timeout_s == 30
    for seconds in (0, 301):
        with pytest.raises(InvalidRequest, match="timeout"):
            shared.run("1", timeout=seconds)
        with pytest.raises(InvalidRequest, match="timeout"):
            Limits(timeout_s=seconds)
    ex = shared.run("while True: pass", timeout=2)
    assert (ex.status, ex.error.code) == ("timeout", "EXECUTION_TIMEOUT")
    assert 2 <= ex.usage.wall_s < 4


def test_c16_the_interview_reads_its_three_answers(shared, program):
    ex = shared.run(program("interview.py"), stdin="Alice\n25\nNew York\n")
    assert ex.stdout == (
        "Enter your name: Enter your age: Enter your city: Hello Alice!\n"
        "You are 25 years old and live in New York.\nYou are an adult.\n"
    )


def test_c16_exhausted_stdin_is_an_eoferror_and_no_hang(shared, program):
    ex = shared.run(program("interview.py"), stdin="Alice\n", timeout=20)
    assert (ex.status, ex.error.name, ex.error.line) == ("error", "EOFError", 2)


def test_c19_an_error_has_exit_code_1_its_traceback_type_and_line(shop):
    with Sandbox() as sandbox:
        ex = sandbox.run("import nonexistent")
    assert (ex.status, ex.exit_code, ex.error.name, ex.error.line) == ("error", 1, "ModuleNotFoundError", 1)
    assert ex.stderr.rstrip("\n") == (
        'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n    import nonexistent\n'
        "ModuleNotFoundError: No module named 'nonexistent'"
    )


def test_c21_bad_syntax_is_python_syntax_error(shared):
    ex = shared.run("print('never')\nif True print(1)")
    assert (ex.error.code, ex.error.name, ex.error.line, ex.stdout) == ("PYTHON_SYNTAX_ERROR", "SyntaxError", 2, "")


def test_c22_a_missing_module_is_module_not_found(shop):
    with Sandbox() as sandbox:
        ex = sandbox.run("import no_such_module_xyz")
    assert ex.error.code == "MODULE_NOT_FOUND"
    assert "no_such_module_xyz" in ex.error.value
    assert "there is no package 'no-such-module-xyz' on the package index" in ex.error.hint


def test_c23_a_package_that_does_not_exist_is_package_install_failed(shop):
    with Sandbox() as sandbox:
        sandbox.run("kept = 1")
        ex = sandbox.run("print('never')", packages=["no-such-pkg-xyz"])
        assert (ex.error.code, "no-such-pkg-xyz" in ex.error.value, ex.stdout) == ("PACKAGE_INSTALL_FAILED", True, "")
        assert sandbox.run("kept").value == 1


def test_c24_a_loop_ends_at_its_timeout(shared):
    started = time.monotonic()
    ex = shared.run("while True: pass", timeout=2)
    assert (ex.status, ex.error.code) == ("timeout", "EXECUTION_TIMEOUT")
    assert 2 <= ex.usage.wall_s < 6
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("timeout", [0, 301, -1])
def test_c24_a_timeout_out_of_range_is_refused(shared, timeout):
    with pytest.raises(InvalidRequest, match="timeout"):
        shared.run("1", timeout=timeout)


def test_c25_a_failed_import_is_import_error(shared):
    ex = shared.run("from math import nosuch")
    assert (ex.error.code, ex.error.name) == ("IMPORT_ERROR", "ImportError")


def test_c26_a_division_by_zero_is_runtime_error(shared):
    assert shared.run("1/0").error.code == "RUNTIME_ERROR"


def test_c27_memory_error_whether_python_raised_it_or_the_kernel_killed():
    with Sandbox(limits=Limits(memory_mb=256)) as sandbox:
        raised = sandbox.run("x = bytearray(1 << 30)")
        assert (raised.status, raised.error.code, raised.error.name) == ("out_of_memory", "MEMORY_ERROR", "MemoryError")
        assert sandbox.run("'kept'").state == "kept"
        # Shared memory is not the process's own data, so that only the sandbox's limit counts it.
        killed = sandbox.run("import mmap\nshared = mmap.mmap(-1, 1 << 30)\nwhile True: shared.write(bytes(1 << 20))")
        assert (killed.status, killed.error.code) == ("out_of_memory", "MEMORY_ERROR")
        after = sandbox.run("2 + 2")
        assert (after.value, after.state) == (4, "reset")
        assert "memory" in after.state_reason


def test_c28_sys_exit_1_is_an_error_that_keeps_its_output_and_0_is_a_success(shared):
    bad = shared.run("import sys\nprint('partial')\nsys.exit(1)")
    good = shared.run("import sys\nprint('whole')\nsys.exit(0)")
    assert (bad.status, bad.exit_code, bad.stdout) == ("error", 1, "partial\n")
    assert (good.status, good.exit_code, good.stdout) == ("ok", 0, "whole\n")


def test_c30_a_plot_that_was_saved_is_downloaded(fresh, tmp_path):
    ex = fresh.run(
        "import matplotlib.pyplot as plt\nimport numpy as np\nx = np.linspace(0, 10, 100)\nplt.plot(x, np.sin(x))\n"
        "plt.title('Sine Wave')\nplt.savefig('/workspace/plot.png')\nprint('Plot saved to plot.png')"
    )
    assert ex.stdout == "Plot saved to plot.png\n"
    assert [(file.path, file.mime) for file in ex.files] == [("plot.png", "image/png")]
    assert fresh.files.download("/workspace/plot.png", tmp_path).read_bytes().startswith(b"\x89PNG\r\n")


def test_c34_text_and_bytes_arrive_as_they_are_and_no_more_than_fits(tmp_path):
    with Sandbox(limits=Limits(disk_mb=4), policy=Policy(packages="none")) as sandbox:
        contents = {"text.txt": "grüße\r\n🐍", "bytes.bin": bytes(range(256))}
        assert sandbox.files.write_all(contents) == {}
        assert sandbox.files.read("text.txt").decode() == contents["text.txt"]
        assert sandbox.files.download("bytes.bin", tmp_path).read_bytes() == contents["bytes.bin"]
        (tmp_path / "large").write_bytes(bytes(5 << 20))
        with pytest.raises(DiskFull):
            sandbox.files.upload(tmp_path / "large")
        assert [entry.path for entry in sandbox.files.list()] == ["bytes.bin", "text.txt"]


def test_c36_what_to_look_at_in_trouble_is_the_sandboxs_own(shared):
    ex = shared.run(
        "import subprocess, sys\n"
        "def pip(*given): return subprocess.run([sys.executable, '-m', 'pip', *given], capture_output=True, text=True).stdout\n"
        "[pip('--version'), pip('list'), sys.path, open('/proc/meminfo').readline().split()]",
        timeout=60,
    )
    version, listed, path, memory = ex.value
    assert version.startswith("pip ")
    assert " from /opt/python/" in version or " from /usr/lib/" in version
    assert {"numpy", "pandas"} <= {line.split()[0] for line in listed.splitlines() if line}
    assert not [
        folder for folder in path if folder and not folder.startswith(("/opt/", "/usr/", "/workspace", "/packages"))
    ]
    assert memory == ["MemTotal:", str(512 << 10), "kB"]


def test_c39_a_hundred_megabytes_of_output_are_cut_and_marked(fresh):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ex = fresh.run(
        "line = 'x' * 99 + '\\n'\nfor _ in range(1000):\n    print(line * 1000, end='')\n'done'", timeout=120
    )
    assert (ex.status, ex.truncated, ex.value) == ("ok", True, "done")
    assert len(ex.stdout) <= 1_048_576
    assert ex.stdout.startswith("x" * 99 + "\nx")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def test_c40_the_streams_are_apart_and_blank_lines_are_kept(shared):
    ex = shared.run(
        "import sys\nprint('o1\\n')\nprint('e1\\n\\n', file=sys.stderr)\nprint()\nprint('o2')\nprint('e2', file=sys.stderr)"
    )
    assert (ex.stdout, ex.stderr) == ("o1\n\n\no2\n", "e1\n\n\ne2\n")
