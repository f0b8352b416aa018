from belljar.engines.base import EngineHealth, Layer
from belljar.surfaces.cli import doctor

SOUND = EngineHealth("wasm", True, (Layer("permissions", True, "deny all"),))
BROKEN = EngineHealth(
    "native", False, (Layer("seccomp", True, "holds"), Layer("memory", False, "cgroup not writable", "delegate [it]"))
)


def test_auto_is_native_when_it_holds_then_wasm_then_nothing():
    whole = EngineHealth("native", True)
    assert doctor.describe([SOUND, whole])["auto"] == "native"
    assert doctor.describe([BROKEN, SOUND])["auto"] == "wasm"
    assert doctor.describe([BROKEN])["auto"] is None


def test_the_report_names_each_wall_with_its_fix(capsys):
    doctor.draw(doctor.describe([BROKEN, SOUND]))
    shown = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "native: not available" in lines
    assert "wasm: available" in lines
    assert "holds seccomp holds" in lines
    assert "missing memory cgroup not writable" in lines
    assert "fix: delegate [it]" in lines
    assert "auto wasm" in lines


def test_a_machine_without_any_wall_is_told_so(capsys):
    doctor.draw(doctor.describe([BROKEN]))
    assert "no engine holds on this machine" in capsys.readouterr().out
