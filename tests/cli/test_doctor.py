import pytest

from belljar.health import EngineHealth, Layer
from belljar.surfaces.cli import doctor

SOUND = EngineHealth("wasm", True, (Layer("permissions", True, "deny all"),))
BROKEN = EngineHealth(
    "native", False, (Layer("seccomp", True, "holds"), Layer("memory", False, "cgroup not writable", "delegate [it]"))
)


@pytest.mark.parametrize("auto", ["native", "wasm", None])
def test_auto_is_what_the_host_would_choose(auto):
    assert doctor.describe([BROKEN, SOUND], auto)["auto"] == auto


def test_an_engine_without_a_wall_is_not_usable_unless_the_operator_allows_it(monkeypatch):
    degraded = EngineHealth("native", True, BROKEN.layers)
    assert [each["usable"] for each in doctor.describe([degraded, SOUND], "wasm")["engines"]] == [False, True]
    monkeypatch.setenv("BELLJAR_ALLOW_DEGRADED", "1")
    assert [each["usable"] for each in doctor.describe([degraded, BROKEN], "native")["engines"]] == [True, False]


def test_the_report_names_each_wall_with_its_fix(capsys):
    doctor.draw(doctor.describe([BROKEN, SOUND], "wasm"))
    shown = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "native: not available" in lines
    assert "wasm: available" in lines
    assert "holds seccomp holds" in lines
    assert "missing memory cgroup not writable" in lines
    assert "fix: delegate [it]" in lines
    assert "auto wasm" in lines


def test_a_machine_without_any_wall_is_told_so(capsys):
    doctor.draw(doctor.describe([BROKEN], None))
    assert "no engine holds on this machine" in capsys.readouterr().out
