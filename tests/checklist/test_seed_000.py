"""Checklist rows A: the internal tool of seed 000, as far as the library goes."""

from __future__ import annotations

import itertools
import os
import re
import socket
import statistics
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.checklist.conftest import PROGRAMS
from tests.shop import wheel

from belljar import Sandbox

SALES = [45000, 52000, 48000, 61000, 58000, 67000, 72000, 68000, 75000, 81000, 79000, 88000]


def test_a01_email_validation_prints_exactly_the_given_block(shared, program):
    ex = shared.run(program("email_validation.py"))
    assert (ex.status, ex.stderr, ex.results) == ("ok", "", [])
    # The block was typed by hand with columns of 29 characters where the program prints 30; all else is the same.
    assert re.sub(" +", " ", ex.stdout) == re.sub(" +", " ", program("email_validation.txt"))
    plain = subprocess.run(
        [sys.executable, PROGRAMS / "email_validation.py"], capture_output=True, check=True, timeout=60
    )
    assert ex.stdout.encode() == plain.stdout
    assert ex.stdout.splitlines()[-3] == "Results: 9/9 passed, 0 failed"
    assert ex.stdout.splitlines()[-1] == "✓ All test cases passed!"


def test_a02_sales_statistics_match_a_local_calculation(shared, program):
    growth = statistics.fmean((after - before) / before * 100 for before, after in itertools.pairwise(SALES))
    ex = shared.run(program("sales_statistics.py"))
    assert ex.stdout.splitlines() == [
        "Sales Analysis Report",
        "=" * 50,
        "Mean Sales: $66,166.67",
        "Median Sales: $67,500.00",
        f"Standard Deviation: ${statistics.pstdev(SALES):,.2f}",
        f"Average Monthly Growth: {growth:.2f}%",
        "Trend: Positive",
    ]


def test_a03_binary_search_passes_all_eight(shared, program):
    ex = shared.run(program("binary_search.py"))
    assert ex.stdout.splitlines()[-1] == "Results: 8/8 tests passed"
    assert "✓ PASS | Duplicate values               | Expected:   2, Got:   2" in ex.stdout
    assert "FAIL" not in ex.stdout


def test_a04_quadratic_equation_with_its_signs_byte_for_byte(shared, program):
    ex = shared.run(program("quadratic.py"))
    expected = (
        "Quadratic Equation: 2x² + (-8)x + 6 = 0\n" + "=" * 50 + "\nDiscriminant (b² - 4ac): 16\n\n"
        "Two distinct real solutions:\nx₁ = 3.0\nx₂ = 1.0\n\nVerification:\n"
        "For x₁=3.0: 2(3.0)² + (-8)(3.0) + 6 = 0.0000000000\n"
        "For x₂=1.0: 2(1.0)² + (-8)(1.0) + 6 = 0.0000000000\n"
    )
    assert ex.stdout.encode() == expected.encode()


def test_a05_output_value_and_error_are_three_fields(shared):
    good = shared.run("print('printed')\n6 * 7")
    bad = shared.run("print('printed')\n1 / 0")
    assert (good.stdout, good.text, good.value, good.error) == ("printed\n", "42", 42, None)
    assert (bad.stdout, bad.text, bad.error.name, bad.error.value) == (
        "printed\n",
        None,
        "ZeroDivisionError",
        "division by zero",
    )


def test_a06_host_files_environment_and_sockets_are_out_of_reach(fresh, tmp_path: Path, monkeypatch):
    canary = "canary-5c1f77"
    secret = tmp_path / "secret.txt"
    secret.write_text(canary)
    monkeypatch.setenv("HOST_CANARY", canary)
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "host.sock"))
        unix.listen()
        ex = fresh.run(
            "import os, socket\nseen = [repr(dict(os.environ))]\n"
            "for path in _args['paths']:\n"
            "    try: seen.append(open(path).read())\n    except OSError as e: seen.append(type(e).__name__)\n"
            "for family, address in ((socket.AF_INET, ('127.0.0.1', _args['port'])), (socket.AF_UNIX, _args['unix'])):\n"
            "    try:\n        socket.socket(family).connect(address); print('REACHED', address)\n"
            "    except OSError as e: seen.append(type(e).__name__)\nprint(seen)",
            args={
                "paths": [str(secret), "/etc/shadow", f"/proc/1/root{secret}"],
                "port": tcp.getsockname()[1],
                "unix": str(tmp_path / "host.sock"),
            },
        )
        passwd = fresh.run("try:\n    print(open('/etc/passwd').read())\nexcept OSError:\n    pass")
    assert ex.status == "ok"
    assert canary not in ex.stdout
    assert "REACHED" not in ex.stdout
    assert passwd.stdout.strip() != Path("/etc/passwd").read_text().strip()


@pytest.mark.parametrize("engine", ["native", "wasm"])
def test_a09_a_package_that_is_imported_and_not_there_is_installed_and_listed(shop, engine):
    shop.sell(wheel("yuzu", "1.2", {"yuzu/__init__.py": "taste = 'sour'"}))
    with Sandbox(engine) as sandbox:
        ex = sandbox.run("import yuzu\nyuzu.taste")
        explicit = sandbox.run("yuzu.taste", packages=["yuzu"])
    assert (ex.value, ex.packages_installed) == ("sour", ["yuzu==1.2"])
    assert (explicit.value, explicit.packages_installed) == ("sour", ["yuzu==1.2"])


def test_a13_an_error_has_type_line_and_traceback_and_the_next_run_works(shared):
    ex = shared.run("x = 1\n\nint('twelve')\n")
    assert (ex.status, ex.error.name, ex.error.line) == ("error", "ValueError", 3)
    assert 'File "main.py", line 3, in <module>' in ex.error.traceback
    assert shared.run("'still here'").value == "still here"


def test_a14_a_shown_plot_is_an_image(shared, decoded):
    ex = shared.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.show()")
    assert len(ex.results) == 1
    assert decoded(ex.results[0])["more_than_one_colour"] is True


def test_a34_a_timeout_names_the_limit_suggests_smaller_steps_and_keeps_the_output(shared):
    ex = shared.run("print('step 1')\nwhile True: pass", timeout=1)
    assert (ex.status, ex.error.code, ex.stdout) == ("timeout", "EXECUTION_TIMEOUT", "step 1\n")
    assert "limit of 1 s" in ex.error.value
    assert "smaller steps" in ex.error.value


def test_a49_an_error_does_not_harm_the_state(fresh):
    fresh.run("earlier = [1, 2]\ndef double(x): return 2 * x")
    assert fresh.run("x = 1\nraise RuntimeError('half way')").status == "error"
    assert fresh.run("(x, earlier, double(21))").value == [1, [1, 2], 42]


def test_a51_a_warm_run_takes_less_than_a_hundred_milliseconds(shared):
    shared.run("1 + 1")
    durations = []
    for _ in range(15):
        started = time.perf_counter()
        assert shared.run("1 + 1").value == 2
        durations.append(time.perf_counter() - started)
    assert statistics.median(durations) < 0.1


def test_a52_time_and_packages_are_reported(shared):
    ex = shared.run("import time\ntime.sleep(0.05)")
    assert 0.05 <= ex.usage.wall_s < 20
    assert ex.usage.peak_memory_bytes > 1_000_000
    assert ex.packages_installed == []


def test_a53_no_credential_of_the_host_is_in_the_sandbox():
    # A process of its own, so that the secret is there before anything of the sandbox is.
    script = textwrap.dedent("""
        from belljar import Sandbox
        # The pattern does not match its own text, so that the search cannot find itself.
        HUNT = '''
        import os, re
        pattern = re.compile(rb"token-c[a]nary-[0-9a-f]{8}")
        found = []
        sources = ["/proc/self/environ", "/proc/self/cmdline"]
        sources += [f"/proc/{pid}/environ" for pid in os.listdir("/proc") if pid.isdigit()]
        for path in sources:
            try:
                found += pattern.findall(open(path, "rb").read())
            except OSError:
                pass
        found += pattern.findall(repr(dict(os.environ)).encode())
        searched = 0
        try:
            memory = open("/proc/self/mem", "rb", 0)
            for line in open("/proc/self/maps"):
                low, high = (int(x, 16) for x in line.split()[0].split("-"))
                if "r" not in line.split()[1] or "[v" in line or high - low > 200_000_000:
                    continue
                try:
                    memory.seek(low)
                    found += pattern.findall(memory.read(high - low))
                    searched += high - low
                except OSError:
                    pass
        except OSError:
            pass
        print(len(found), found[:3])
        '''
        with Sandbox() as sandbox:
            execution = sandbox.run(HUNT)
            print(execution.status, execution.stdout.strip(), execution.stderr)
    """)
    env = {"PATH": "/usr/bin:/bin", "API_TOKEN": "token-canary-0badc0de", **_inherited()}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "ok 0 []", done.stderr


def _inherited() -> dict[str, str]:
    kept = ("HOME", "PYTHONPATH", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "LANG")
    return {name: value for name, value in os.environ.items() if name in kept or name.startswith("BELLJAR_")}


def test_a54_a_warning_on_standard_error_is_a_success(shared):
    ex = shared.run("import warnings\nwarnings.warn('just so you know')\nprint('result')")
    assert (ex.status, ex.error, ex.stdout) == ("ok", None, "result\n")
    assert "UserWarning: just so you know" in ex.stderr


@pytest.fixture(autouse=True)
def _shared_is_alive(request):
    yield
    if "shared" in request.fixturenames:
        sandbox: Sandbox = request.getfixturevalue("shared")
        assert sandbox.run("1").status == "ok"
