"""The environment of a sandbox: what it was given, for as long as it was given, and nothing of the host's."""

from __future__ import annotations

import textwrap

import pytest

from belljar import Sandbox

OWN = {
    *("HOME", "USER", "LOGNAME", "PATH", "LANG", "TMPDIR", "PYTHONDONTWRITEBYTECODE", "PIP_DISABLE_PIP_VERSION_CHECK"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
}
LOOK = """
import os, subprocess
everything = dict(os.environ)
child = dict(line.split("=", 1) for line in subprocess.run(["env", "-0"], capture_output=True, text=True).stdout.split("\\0") if line)
raw = {}
for name in os.listdir("/proc"):
    if name.isdigit():
        try: raw[name] = open("/proc/%s/environ" % name).read()
        except OSError: pass
[everything, child, "".join(raw.values())]
"""


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> str:
    """A secret in the host's environment, and a proxy with a password, as hosts have them."""
    monkeypatch.setenv("ENVIRONMENT_CANARY", "sesame-1234")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:sesame-1234@127.0.0.1:1")
    return "sesame-1234"


def looked(sandbox: Sandbox, **options: object) -> tuple[dict[str, str], dict[str, str], str]:
    everything, child, raw = sandbox.run(LOOK, **options).raise_for_status().value  # type: ignore[arg-type]
    return everything, child, raw


def test_nothing_of_the_hosts_environment_is_inside(native: None, canary: str):
    with Sandbox("native") as sandbox:
        everything, child, raw = looked(sandbox)
    allowed = OWN | {"LD_LIBRARY_PATH"}
    assert OWN <= {*everything} <= allowed
    assert {*child} <= allowed
    assert canary not in f"{everything} {child} {raw}"


def test_what_a_sandbox_is_given_is_there_in_every_run_and_in_no_other_sandbox(native: None):
    odd = "quotes ' \" backslash \\ newline \n tab \t ünïcödé ✓ = $HOME %s"
    with Sandbox("native", env={"GIVEN": odd, "EMPTY": ""}) as sandbox, Sandbox("native") as other:
        for _ in range(2):
            everything, child, _raw = looked(sandbox)
            assert (everything["GIVEN"], child["GIVEN"], everything["EMPTY"]) == (odd, odd, "")
            sandbox.reset()
        assert "GIVEN" not in looked(other)[0]


def test_what_a_run_is_given_is_gone_after_it_whatever_the_run_does(native: None):
    with Sandbox("native", env={"KEPT": "first"}) as sandbox:
        given = {"TOKEN": "only-now", "KEPT": "for this run"}
        everything, child, _ = looked(sandbox, env=given)
        assert {name: (everything[name], child[name]) for name in given} == {k: (v, v) for k, v in given.items()}
        assert sandbox.run("os.environ['TOKEN'] = 'stay'\nraise ValueError", env=given).status == "error"
        stopped = sandbox.run("while True: pass", env=given, timeout=1)
        assert (stopped.status, stopped.state) == ("timeout", "kept")
        everything, child, raw = looked(sandbox)
        assert (everything["KEPT"], child["KEPT"]) == ("first", "first")
        assert not {"TOKEN"} & {*everything, *child}
        assert "only-now" not in raw
        changed = textwrap.dedent("""
            os.environ["MINE"] = "kept"
            os.environ.pop("KEPT", None)
        """)
        sandbox.run(changed)
        assert {"MINE": "kept"}.items() <= looked(sandbox)[0].items()  # what the code itself sets is its state
        sandbox.reset()
        assert "MINE" not in looked(sandbox)[0]
        assert looked(sandbox)[0]["KEPT"] == "first"
