"""The plan of what a sandbox sees of the host: the system's own folders, one Python, our code, and nothing of anybody's home."""

from __future__ import annotations

from pathlib import Path

import pytest

from belljar.engines.native import layout
from belljar.engines.native.interpreter import Interpreter, probe
from belljar_jail import beneath

HOMEMADE = Interpreter(
    "3.12.1", "/home/ann/python/bin/python3.12", "/home/ann/python", ["/home/ann/python/lib/python3.12/site-packages"],
    "/home/ann/python/lib",
)  # fmt: skip
SYSTEM = Interpreter(
    "3.11.2", "/usr/bin/python3.11", "/usr",
    ["/usr/local/lib/python3.11/dist-packages", "/usr/lib/python3/dist-packages"], None,
)  # fmt: skip
INSIDE, SITE = Path("/cache/inside/abc"), Path("/cache/environments/base/site")


def sources(steps: list[layout.Step]) -> set[str]:
    """Everything of the host that a plan shows."""
    return {path for step in steps for path in [step.get("source"), *step.get("lowers", ())] if path}


def test_only_the_interpreter_and_our_own_folders_come_from_outside_the_system():
    shown = {
        path
        for path in sources(layout.plan(HOMEMADE, INSIDE, SITE))
        if not path.startswith(("/usr/", "/etc/", "/lib", "/bin"))
    }
    assert shown == {"/home/ann/python/bin", "/home/ann/python/lib", str(INSIDE), str(SITE)}


def test_nothing_private_of_the_system_is_shown():
    shown = sources(layout.plan(SYSTEM, INSIDE, SITE))
    for private in (
        "/etc",
        "/etc/shadow",
        "/etc/passwd",
        "/root",
        "/home",
        "/var",
        "/run",
        "/proc",
        "/sys",
        "/dev",
        "/",
        "/usr/local",
    ):
        assert private not in shown
    assert not any(path.startswith(("/root", "/home", "/var", "/run", "/etc/ssl/private")) for path in shown)


def test_python_comes_with_our_packages_in_place_of_its_own():
    (overlay,) = [step for step in layout.plan(HOMEMADE, INSIDE, SITE) if str(INSIDE) in step.get("lowers", ())]
    assert overlay == {
        "kind": "overlay", "at": "/opt/python/lib/python3.12/site-packages", "lowers": [str(INSIDE), str(SITE)],
    }  # fmt: skip
    (bare,) = [step for step in layout.plan(HOMEMADE, INSIDE, None) if str(INSIDE) in step.get("lowers", ())]
    assert bare["lowers"] == [str(INSIDE)]


def test_packages_of_the_systems_python_are_hidden():
    plan = layout.plan(SYSTEM, INSIDE, SITE)
    assert {"kind": "overlay", "at": "/usr/lib/python3/dist-packages", "lowers": [str(INSIDE), str(SITE)]} in plan
    assert not any(path.startswith("/usr/local") for path in sources(plan))


def test_what_the_sandbox_may_write_to_is_only_prepared():
    plan = layout.plan(HOMEMADE, INSIDE, SITE)
    folders = {step["at"] for step in plan if step["kind"] == "folder"}
    assert folders == {"/workspace", "/home/sandbox", "/dev/shm", "/proc", "/packages/site", "/.disk", "/.empty"} | {
        *beneath.folders()
    }
    assert {step["kind"] for step in plan} <= {"bind", "overlay", "hidden", "link", "file", "folder", "tmpfs"}


def test_the_written_files_know_one_user_and_one_host():
    texts = {step["at"]: step["text"] for step in layout.plan(HOMEMADE, INSIDE, SITE) if step["kind"] == "file"}
    assert texts["/etc/passwd"] == "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
    assert texts["/etc/hosts"] == "127.0.0.1 localhost sandbox\n::1 localhost\n"


def test_the_environment_names_nothing_of_the_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", "x")
    environment = layout.guest_environment(HOMEMADE)
    assert "SECRET" not in environment
    assert "/home/ann" not in str(environment)
    assert (environment["PATH"], environment["LD_LIBRARY_PATH"]) == ("/opt/python/bin:/usr/bin:/bin", "/opt/python/lib")
    assert layout.guest_python(HOMEMADE) == "/opt/python/bin/python3.12"
    assert layout.guest_python(SYSTEM) == "/usr/bin/python3.11"


def test_an_interpreter_is_asked_once_and_remembered(tmp_path: Path):
    import sys

    asked = probe(Path(sys.executable), tmp_path)
    assert asked.version == ".".join(map(str, sys.version_info[:3]))
    assert len(list((tmp_path / "interpreters").iterdir())) == 1
    assert probe(Path(sys.executable), tmp_path) == asked
