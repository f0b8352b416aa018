"""The engine without walls: it says so everywhere, is found nowhere else, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.unconfined.conftest import eventually, is_gone

from belljar import EngineUnavailable, InvalidRequest, PackageError, Policy, Sandbox, compose
from belljar.engines import registry
from belljar.settings import Settings
from belljar.testing import ENGINE, UnconfinedHost, unconfined

WHERE = "import os, sys\n[sys.executable, os.getcwd(), os.environ['HOME'], os.getpid(), sys.argv]"


def test_auto_stands_for_it_on_its_own_host_and_each_execution_says_that_there_is_no_wall(sandbox: Sandbox):
    ran = sandbox.run("1 + 1")
    assert (sandbox.engine, ran.engine, ran.value, ran.degraded) == (ENGINE, ENGINE, 2, ["walls"])


def test_no_other_host_has_it():
    assert ENGINE not in registry.PARTS
    host = compose.LocalHost(Settings.load())
    try:
        with compose.using(host), pytest.raises(InvalidRequest, match="there is no engine 'unconfined'"):
            Sandbox(ENGINE)
    finally:
        host.close()


def test_auto_does_not_pick_it_where_every_wall_must_hold():
    with unconfined(allow_degraded=False), pytest.raises(EngineUnavailable, match="an ordinary process of yours"):
        Sandbox()


def test_its_one_layer_does_not_hold(host: UnconfinedHost):
    (health,) = compose.health()
    assert (health.engine, health.available, health.usable(False)) == (ENGINE, True, False)
    assert [layer.name for layer in health.missing] == ["walls"]


@pytest.mark.parametrize("policy", [Policy(network=["a.example"]), Policy(mounts={"/data": "/usr/share"})])
def test_what_it_cannot_enforce_is_refused(host: UnconfinedHost, policy: Policy):
    with pytest.raises(InvalidRequest, match=r"the unconfined engine has no (network|mounts) here"):
        Sandbox(policy=policy)


def test_it_runs_on_this_very_python_in_folders_of_its_own(sandbox: Sandbox):
    python, folder, home, pid, argv = sandbox.run(WHERE).value
    assert (python, argv) == (sys.executable, ["main.py"])
    assert pid != os.getpid()
    assert Path(home).parent == Path(folder).parent
    assert sandbox.run("import belljar_kernel").status == "ok"
    with pytest.raises(InvalidRequest, match="the Python of this process only"):
        Sandbox(python="3.12")


def test_nothing_is_left_of_it_after_its_end(host: UnconfinedHost):
    with Sandbox() as sandbox:
        _, folder, _, pid, _ = sandbox.run(WHERE).value
        child = sandbox.run("import subprocess; subprocess.Popen(['sleep', '600']).pid").value
        assert os.path.isdir(folder)
    assert not Path(folder).parent.exists()
    assert is_gone(pid)
    eventually(lambda: is_gone(child))


def test_the_host_ends_what_was_not_closed():
    with unconfined():
        sandbox = Sandbox()
        pid = sandbox.run("import os; os.getpid()").value
    assert is_gone(pid)


def test_packages_that_are_there_are_as_good_as_installed_and_others_are_refused(host: UnconfinedHost):
    with Sandbox(packages=["pytest"]) as sandbox:
        assert sandbox.run("import pytest; pytest.__name__").value == "pytest"
        assert sandbox.install("pytest>=1") == []
        for wanted in ("pytest<1", "belljar-has-no-such-package"):
            with pytest.raises(PackageError, match="installs nothing"):
                sandbox.install(wanted)
        missing = sandbox.run("import belljar_has_no_such_module")
    assert (missing.error.code, "installs nothing" in missing.error.hint) == ("MODULE_NOT_FOUND", True)


def test_the_environment_is_not_this_process_s(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BELLJAR_TEST_SECRET", "secret")
    with Sandbox(env={"MINE": "1"}) as other:
        assert other.run("import os; [os.environ.get('BELLJAR_TEST_SECRET'), os.environ['MINE']]").value == [None, "1"]
