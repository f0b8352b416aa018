import json
import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest

COMMANDS = ["run", "repl", "doctor", "packages", "bench", "attack", "version"]


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), ["packages", "list"], ["packages", "sync"]])
def test_every_command_explains_itself(belljar, command):
    done = belljar(*command, "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(" ".join(["usage: belljar", *command]).encode())


def test_the_version_is_the_installed_one(belljar):
    expected = f"belljar {version('belljar')}\n".encode()
    assert belljar("version").stdout == expected
    assert belljar("--version").stdout == expected


@pytest.mark.parametrize("arguments", [["nonsense"], ["run", "--nonsense"], ["packages"], []])
def test_what_is_not_a_command_is_wrong_usage(belljar, arguments):
    done = belljar(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"usage: belljar" in done.stderr


@pytest.mark.engine
def test_doctor_reports_every_layer_and_what_auto_picks(belljar):
    done = belljar("doctor", "--json")
    report = json.loads(done.stdout)
    native = next(engine for engine in report["engines"] if engine["engine"] == "native")
    assert done.returncode == (0 if report["auto"] else 1)
    assert native["layers"]
    shown = belljar("doctor").stdout.decode()
    assert [layer["name"] for layer in native["layers"] if layer["name"] not in shown] == []
    assert report["cache_dir"] in shown


@pytest.mark.engine
def test_packages_lists_what_every_sandbox_has(belljar):
    lines = belljar("packages", "list").stdout.decode().splitlines()
    assert [line for line in lines if line.startswith("pandas==")] != []
    assert json.loads(belljar("packages", "list", "--json").stdout) == lines


@pytest.mark.engine
def test_a_prepared_base_environment_needs_no_preparation(belljar):
    done = belljar("packages", "sync")
    assert done.returncode == 0
    assert b"the base environment is ready" in done.stderr


@pytest.mark.engine
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_mistake_of_ours(environment, closed: str):
    command = f"{shlex.quote(sys.executable)} -m belljar run -c 'import sys; print(1); sys.exit(3)' {closed}"
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == ("" if ">&-" in closed.split() or " >&-" in closed else "1\n")
