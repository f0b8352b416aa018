"""What `run` takes, and what the Execution that comes back can do."""

from __future__ import annotations

import json
import uuid

import pytest

from belljar import ExecutionFailed, Limits, Policy, Sandbox


def test_a_sandbox_has_a_uuid_a_name_and_an_engine():
    with Sandbox("native", name="calculator") as sandbox:
        assert str(uuid.UUID(sandbox.id)) == sandbox.id
        assert (sandbox.name, sandbox.engine) == ("calculator", "native")
        ran = sandbox.run("1")
        assert (ran.sandbox_id, ran.engine, ran.degraded) == (sandbox.id, "native", [])


def test_auto_says_which_engine_it_took():
    with Sandbox() as sandbox:
        assert sandbox.engine in ("native", "wasm", "container")


def test_variables_stay_and_runs_are_counted(sandbox: Sandbox):
    sandbox.run("x = 40")
    ran = sandbox.run("x + 2")
    assert (ran.value, ran.text, ran.execution_count, ran.state) == (42, "42", 2, "kept")


def test_two_sandboxes_share_nothing():
    with Sandbox() as one, Sandbox() as other:
        one.run("secret = 1; open('secret.txt', 'w').write('1')")
        assert other.run("'secret' in globals()").value is False
        assert [entry.path for entry in other.files.list()] == []


def test_env_is_there_for_one_run_only(sandbox: Sandbox):
    read = "import os; os.environ.get('TOKEN')"
    assert sandbox.run(read, env={"TOKEN": "abc"}).value == "abc"
    assert sandbox.run(read).value is None


def test_env_of_the_sandbox_is_there_in_every_run_and_after_a_reset():
    with Sandbox(env={"TOKEN": "abc"}) as sandbox:
        read = "import os; os.environ.get('TOKEN')"
        assert sandbox.run(read, env={"TOKEN": "xyz"}).value == "xyz"
        assert sandbox.run(read).value == "abc"
        sandbox.reset()
        assert sandbox.run(read).value == "abc"


def test_the_hosts_environment_is_not_inside(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BELLJAR_CANARY", "seen")
    with Sandbox() as fresh:
        assert "BELLJAR_CANARY" not in fresh.run("import os; dict(os.environ)").value


def test_args_are_json_for_one_run_and_none_means_no_args(sandbox: Sandbox):
    given = {"rows": [1, 2.5, None, "ä\ud800"], "deep": {"er": True}}
    assert sandbox.run("_args", args=given).value == given
    assert sandbox.run("'_args' in globals()", args=None).value is False
    assert sandbox.run("_args == 0", args=0).value is True


def test_stdin_feeds_input_and_ends(sandbox: Sandbox):
    ran = sandbox.run("print(input() + input())\ninput()", stdin="a\nb\n")
    assert (ran.stdout, ran.error.name) == ("ab\n", "EOFError")


def test_files_are_there_before_the_code(sandbox: Sandbox):
    ran = sandbox.run("open('in/a.txt').read() + open('/workspace/b').read()", files={"in/a.txt": "ä", "b": b"!"})
    assert ran.value == "ä!"


def test_cwd_is_for_one_run(sandbox: Sandbox):
    assert sandbox.run("import os; os.getcwd()", cwd="/workspace/deep/er").value == "/workspace/deep/er"
    assert sandbox.run("os.getcwd()").value == "/workspace"


def test_the_timeout_of_a_run_beats_the_sandboxes_own(sandbox: Sandbox):
    ran = sandbox.run("while True: pass", timeout=1)
    assert (ran.status, ran.error.code, ran.exit_code, ran.state) == ("timeout", "EXECUTION_TIMEOUT", 124, "kept")


def test_raise_for_status_returns_the_execution_or_raises_with_it(sandbox: Sandbox):
    good = sandbox.run("1")
    assert good.raise_for_status() is good
    bad = sandbox.run("1/0")
    with pytest.raises(ExecutionFailed, match="ZeroDivisionError: division by zero") as raised:
        bad.raise_for_status()
    assert raised.value.execution is bad


@pytest.mark.parametrize(
    "code",
    ["1", "1/0", "print('\\ud800')", "float('nan')", "b'\\xff'", "import pandas as pd; pd.DataFrame({'a': [1, None]})"],
)
def test_an_execution_is_json(sandbox: Sandbox, code: str):
    ran = sandbox.run(code)
    read = json.loads(json.dumps(ran.to_dict(), allow_nan=False))
    assert (read["status"], read["stdout"], read["text"]) == (ran.status, ran.stdout, ran.text)
    assert read["usage"].keys() == {"wall_s", "cpu_s", "peak_memory_bytes"}


def test_reset_forgets_variables_keeps_files_and_counts_anew(sandbox: Sandbox):
    sandbox.run("x = 1; open('kept', 'w').close()")
    sandbox.reset()
    ran = sandbox.run("'x' in globals()")
    assert (ran.value, ran.execution_count) == (False, 1)
    assert [entry.path for entry in sandbox.files.list()] == ["kept"]


def test_complete_knows_live_names_and_names_of_the_code(sandbox: Sandbox):
    sandbox.run("some_name = {'a': 1}")
    (found,) = sandbox.complete("1 + some_na")
    assert (found.text, found.start, found.end) == ("some_name", 4, 11)
    assert "dumps" in [completion.text for completion in sandbox.complete("import json\njson.dum")]
    assert sandbox.complete("some_na = 1", cursor=0) is not None


def test_variables_are_described(sandbox: Sandbox):
    sandbox.run("n = 3; text = 'abc'; import numpy as np; grid = np.zeros((2, 3))")
    found = {variable.name: variable for variable in sandbox.variables()}
    assert (found["n"].type, found["text"].type) == ("int", "str")
    assert found["grid"].shape == [2, 3]


def test_python_alone_has_no_packages():
    with Sandbox(policy=Policy(packages="none")) as sandbox:
        ran = sandbox.run("import numpy")
        assert (ran.status, ran.error.code) == ("error", "MODULE_NOT_FOUND")


def test_usage_is_plausible(sandbox: Sandbox):
    used = sandbox.run("import time; time.sleep(0.2); sum(range(3_000_000))").usage
    assert 0.2 <= used.wall_s < 30
    assert 0.005 < used.cpu_s <= used.wall_s + 0.1
    assert 1 << 20 < used.peak_memory_bytes <= 512 << 20
    idle = sandbox.run("time.sleep(1)").usage
    assert idle.cpu_s < idle.wall_s / 2  # sleeping is not working


def test_output_over_the_cap_is_cut_and_whole_in_a_file():
    with Sandbox(limits=Limits(output_mb=0.01)) as sandbox:
        ran = sandbox.run("print('é' * 20_000)\nimport sys\nprint('x', file=sys.stderr)\n7")
        assert (ran.status, ran.truncated, ran.value) == ("ok", True, 7)
        assert 0 < len((ran.stdout + ran.stderr).encode()) <= 10_485
        assert [(file.path, file.size, file.mime) for file in ran.files] == [
            (".belljar/output/run-1.stdout.txt", 40_001, "text/plain"),
            (".belljar/output/run-1.stderr.txt", 2, "text/plain"),
        ]
        assert sandbox.files.read(ran.files[0].path).decode() == "é" * 20_000 + "\n"
        assert sandbox.files.read(ran.files[1].path) == b"x\n"
        short = sandbox.run("print('short')")
        assert (short.truncated, short.files) == (False, [])


def test_only_the_last_output_over_the_cap_is_kept_and_only_so_much_of_it():
    with Sandbox(limits=Limits(output_mb=0.01, disk_mb=8)) as sandbox:
        sandbox.run("print('x' * 20_000)")
        ran = sandbox.run("for _ in range(4): print('y' * 1_000_000)")
        (file,) = ran.files
        assert [entry.path for entry in sandbox.files.list(".belljar/output")] == [file.path]
        content = sandbox.files.read(file.path)
        assert content.endswith(b"y\n[what came after 2,097,152 bytes more was dropped]\n")
        assert len(content) == file.size < 2_200_000


def test_output_that_has_no_room_in_the_workspace_is_dropped():
    with Sandbox(limits=Limits(output_mb=0.01, disk_mb=8)) as sandbox:
        ran = sandbox.run("n = open('full', 'wb').write(bytes(7_900_000))\nprint('x' * 1_000_000)")
        assert (ran.status, ran.truncated, [file.path for file in ran.files]) == ("ok", True, ["full"])


def test_a_flood_that_had_to_be_killed_is_in_the_file_too():
    with Sandbox(limits=Limits(output_mb=0.01)) as sandbox:
        code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('z' * 50_000, flush=True)\nwhile True: pass"
        ran = sandbox.run(code, timeout=1)
        assert (ran.status, ran.state) == ("timeout", "reset")
        assert sandbox.files.read(ran.files[0].path) == b"z" * 50_000 + b"\n"


def test_links_of_the_code_do_not_lead_its_output_elsewhere():
    with Sandbox(limits=Limits(output_mb=0.01)) as sandbox:
        ran = sandbox.run("import os\nos.mkdir('mine'); os.symlink('mine', '.belljar')\nprint('x' * 20_000)")
        assert (ran.status, ran.truncated, ran.files) == ("ok", True, [])
        assert sandbox.files.list("mine") == []
