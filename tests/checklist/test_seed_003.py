"""Checklist rows D: the container tool of seed 003, as far as the library goes."""

from __future__ import annotations

import json
import os
import sys

import pytest
from tests.checklist.processes import host_processes, wait_until_gone

from belljar import Limits, Policy, Sandbox


def test_d05_seven_hundred_megabytes_do_not_fit_in_the_default_memory(fresh):
    ex = fresh.run("x = bytearray(700 << 20)")
    assert (ex.status, ex.error.code) == ("out_of_memory", "MEMORY_ERROR")
    assert fresh.run("1 + 1").value == 2


def test_d06_two_busy_processes_share_one_cpu(fresh):
    ex = fresh.run(
        "import os, time\nend = time.time() + 2\npid = os.fork()\nwhile time.time() < end: pass\n"
        "if pid == 0: os._exit(0)\ndone = os.waitpid(pid, 0)"
    )
    assert ex.status == "ok"
    # One cpu for two seconds, with room for the length of one period and for a busy machine.
    assert ex.usage.cpu_s < 3


def test_d07_a_fork_bomb_stops_with_an_error(fresh):
    ex = fresh.run(
        "import os, time\nfor _ in range(500):\n    if os.fork() == 0:\n        time.sleep(30)\n        os._exit(0)",
        timeout=20,
    )
    assert (ex.status, ex.error.name, ex.error.code) == ("error", "BlockingIOError", "PROCESS_LIMIT")
    bomb = fresh.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", timeout=1)
    assert bomb.status == "timeout"
    assert fresh.run("1 + 1").value == 2


@pytest.mark.parametrize("path", ["/x", "/usr/x", "/etc/x", "/bin/x", "/proc/x", "/dev/x"])
def test_d08_nothing_outside_the_sandbox_folders_can_be_written(shared, path):
    ex = shared.run("try:\n    open(_args, 'w')\nexcept OSError as e:\n    print(type(e).__name__)", args=path)
    assert ex.stdout.strip() in ("OSError", "PermissionError", "FileNotFoundError")


def test_d08_tmp_and_home_can_be_written_and_three_hundred_megabytes_do_not_fit():
    with Sandbox(limits=Limits(memory_mb=1024)) as sandbox:
        ex = sandbox.run(
            "import os\nfor p in ('/tmp/a', os.path.expanduser('~/a')):\n    print(open(p, 'w').write('ok'))"
        )
        assert ex.stdout == "2\n2\n"
        ex = sandbox.run("with open('/tmp/big', 'wb') as f:\n    for _ in range(300): f.write(bytes(1 << 20))")
        assert (ex.error.name, ex.error.code) == ("OSError", "DISK_LIMIT")


def test_d09_there_is_no_network_by_tcp_udp_or_name(fresh):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        ex = fresh.run(
            "import socket\n"
            "def attempt(what):\n    try: return what()\n    except OSError: return 'refused'\n"
            "def tcp(host, port):\n    s = socket.socket(); s.settimeout(1); s.connect((host, port)); return 'REACHED'\n"
            "def udp(host, port):\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)\n"
            "    s.sendto(b'x', (host, port)); return s.recv(1)\n"
            "[attempt(lambda: tcp('127.0.0.1', _args)), attempt(lambda: tcp('169.254.169.254', 80)),\n"
            " attempt(lambda: tcp('192.0.2.1', 80)), attempt(lambda: udp('192.0.2.1', 53)),\n"
            " attempt(lambda: socket.getaddrinfo('example.com', 80))]",
            args=server.getsockname()[1],
        )
        with pytest.raises(TimeoutError):
            server.accept()
    assert ex.value == ["refused"] * 5


@pytest.mark.parametrize("engine", ["native", "wasm"])
def test_d11_the_vault_at_data_is_read_and_cannot_be_written(tmp_path, engine):
    (tmp_path / "note.md").write_text("from the vault")
    with Sandbox(engine, policy=Policy(packages="none", mounts={"/data": str(tmp_path)})) as sandbox:
        assert sandbox.run("open('/data/note.md').read()").value == "from the vault"
        for code in (
            "open('/data/note.md', 'w')",
            "open('/data/new.md', 'w')",
            "import os; os.remove('/data/note.md')",
        ):
            ex = sandbox.run(code)
            assert (ex.status, ex.error.name) == ("error", "OSError")
            assert "Read-only file system" in ex.error.value
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"note.md": "from the vault"}


MODULES = (
    "pandas numpy scipy sklearn matplotlib seaborn requests httpx bs4 lxml openpyxl xlsxwriter yaml tabulate jinja2 jsonschema "
    "PIL sympy"
)


def test_d14_the_table_of_packages_is_preinstalled(fresh):
    """All but pandas_ta, which has no wheel for Python 3.11; from 3.12 on it is there as well."""
    modules = MODULES.split() + (["pandas_ta"] if sys.version_info >= (3, 12) else [])
    ex = fresh.run(
        "import importlib\nfrom importlib.metadata import version\nfor name in _args:\n    module = importlib.import_module(name)\n"
        "    print(name, getattr(module, '__version__', '') or version(name))",
        args=modules, timeout=120,
    )  # fmt: skip
    assert (ex.status, ex.packages_installed) == ("ok", [])
    assert [line.split()[0] for line in ex.stdout.splitlines()] == modules
    assert all(line.split()[1][0].isdigit() for line in ex.stdout.splitlines())


def test_d15_args_greet_the_world_or_ada(shared, program):
    assert shared.run(program("greeting.py"), args={}).stdout == "Hello, World!\n"
    assert shared.run(program("greeting.py"), args={"name": "Ada"}).stdout == "Hello, Ada!\n"


@pytest.mark.parametrize("text", ["\"'`", "\\n\\", "a\nb\r\n", "ünï 🐍", "'''\"\"\"", "x" * 1_000_000])
def test_d15_args_arrive_intact(shared, text):
    ex = shared.run(
        "import hashlib\nhashlib.sha256(_args['v'].encode()).hexdigest(), len(_args['v'])", args={"v": text}
    )
    import hashlib

    assert ex.value == [hashlib.sha256(text.encode()).hexdigest(), len(text)]


def test_d16_a_new_sandbox_has_neither_the_files_nor_the_variables_of_another():
    with Sandbox() as first:
        first.run("x = 1\nopen('/tmp/left', 'w').write('x')\nopen('left', 'w').write('x')")
    with Sandbox() as second:
        ex = second.run("import os\n['x' in globals(), os.path.exists('/tmp/left'), os.path.exists('left')]")
    assert ex.value == [False, False, False]


def test_d16_nothing_is_left_after_a_hundred_runs_and_a_timeout():
    marker = f"97531.{os.getpid()}"
    for _ in range(100):
        with Sandbox() as sandbox:
            assert sandbox.run("1").value == 1
    with Sandbox() as sandbox:
        sandbox.run(f"import subprocess, time\nsubprocess.Popen(['sleep', '{marker}'])\ntime.sleep(30)", timeout=1)
        sandbox.run(f"import subprocess\np = subprocess.Popen(['sleep', '{marker}'], start_new_session=True)")
        assert host_processes(marker)
    assert wait_until_gone(marker) == []


def test_d19_json_on_standard_output_is_an_object(shared):
    data = {"total": 3, "items": [{"name": "a", "price": 1.5}, None], "ok": True}
    ex = shared.run("import json\nprint(json.dumps(_args))\n_args", args=data)
    assert json.loads(ex.stdout) == data
    assert ex.value == data


def test_d22_at_a_timeout_everything_that_was_started_is_gone(fresh):
    marker = f"86420.{os.getpid()}"
    ex = fresh.run(
        "import os, subprocess, time\n"
        f"for n in range(3):\n    subprocess.Popen(['sleep', '{marker}'], start_new_session=bool(n))\n"
        "print('started', flush=True)\ntime.sleep(60)",
        timeout=1,
    )
    assert (ex.status, ex.stdout) == ("timeout", "started\n")
    assert wait_until_gone(marker) == []


def test_d24_the_code_is_not_root_and_has_no_capabilities(shared):
    ex = shared.run(
        "import os\nstatus = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)\n"
        "{'ids': [os.getuid(), os.geteuid(), os.getgid()], 'no_new_privs': status['NoNewPrivs'].strip(),\n"
        " 'caps': [int(status[n], 16) for n in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')]}"
    )
    assert ex.value["caps"] == [0] * 5
    assert ex.value["no_new_privs"] == "1"
    assert all(number > 0 for number in ex.value["ids"])
