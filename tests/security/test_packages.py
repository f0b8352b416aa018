"""Attacks by way of packages: P01, P02, P03, P06 and P07 of the list."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import engines, probe
from tests.shop import Shop, source, wheel

from belljar import InvalidRequest, PackageError, Policy, Sandbox
from belljar.compose import LocalHost

OPTIONS = ["--index-url=http://127.0.0.1:1/", "-r /etc/passwd", "-e .", "--pre", " numpy", "numpy ", "numpy\n--pre"]
SOURCES = [
    "git+https://127.0.0.1/x.git", "x @ https://127.0.0.1/x.whl", "file:///etc/passwd", "./x", "/tmp/x.whl",
    "git+https://127.0.0.1/x.git@--upload-pack=touch /tmp/x", "x; touch /tmp/x", "$(touch /tmp/x)", "`id`", "x|id",
]  # fmt: skip

# The host's part is the same for every engine, and another test shows the wall of wasm.
mostly_native = pytest.mark.parametrize(
    "engine", ["native", pytest.param("wasm", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture(params=["native", "wasm"])
def engine(request: pytest.FixtureRequest, shop: Shop, apart: LocalHost, native: None) -> str:
    return engines.prepared(request.param, apart).name


def test_p01_p02_an_option_address_or_path_never_reaches_a_client(
    engine: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sandbox(engine) as sandbox:
        with monkeypatch.context() as watched:
            watched.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a client was started"))
            for written in OPTIONS + SOURCES:
                with pytest.raises(InvalidRequest):
                    sandbox.install(written)
                with pytest.raises(InvalidRequest):
                    sandbox.run("1", packages=[written])
        assert sandbox.run("2").value == 2
    assert shop.asked == []


def test_p03_a_source_whose_set_up_runs_code_is_refused_and_never_run(engine: str, shop: Shop, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    shop.sell(source("poison", "1.0", f"open({str(trace)!r}, 'w').close()\n"))
    with Sandbox(engine) as sandbox:
        with pytest.raises(PackageError):
            sandbox.install("poison")
        assert sandbox.run("import poison").error.code == "MODULE_NOT_FOUND"
    assert not trace.exists()


def test_p03_a_package_that_needs_an_address_is_refused_and_nobody_is_asked_there(
    engine: str, shop: Shop, tmp_path: Path
) -> None:
    trace, elsewhere = tmp_path / "ran", Shop()
    base = elsewhere.address.removesuffix("/simple")
    elsewhere.sell(source("inner", "1.0", f"open({str(trace)!r}, 'w').close()\n"), wheel("internal", "1.0", {}))
    shop.sell(
        wheel("lure", "1.0", {"lure.py": ""}, [f"inner @ {base}/files/inner-1.0.tar.gz"]),
        wheel("bait", "1.0", {"bait.py": ""}, [f"internal @ {base}/files/internal-1.0-py3-none-any.whl"]),
        wheel("line", "1.0", {"line.py": ""}, ["bait"]),
    )
    try:
        with Sandbox(engine) as sandbox:
            for name in ("lure", "line"):
                with pytest.raises(PackageError, match=f"{name} could not be installed"):
                    sandbox.install(name)
            assert sandbox.run("import lure").error.code == "MODULE_NOT_FOUND"
    finally:
        elsewhere.close()
    assert elsewhere.asked == []
    assert not trace.exists()


def test_p03_no_code_of_a_wheel_runs_on_the_host_nor_inside_before_it_is_imported(
    engine: str, shop: Shop, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    line = f"open({str(trace)!r}, 'w').close()"
    sly = f"import sys; sys.sly = True; {line}"
    shop.sell(wheel("trap", "1.0", {"trap.py": line, "trap.pth": sly, "sitecustomize.py": sly}))
    with Sandbox(engine) as sandbox:
        assert sandbox.install("trap") == ["trap==1.0"]
        sandbox.reset()
        assert sandbox.run("import sys; hasattr(sys, 'sly')").value is False
        assert sandbox.run("import trap").error is not None
    assert not trace.exists()


def test_p03_a_wheel_that_names_files_outside_writes_none_there(engine: str, shop: Shop, apart: LocalHost) -> None:
    for number, place in enumerate(["../outside.py", "/tmp/belljar-outside.py", "a/../../outside.py"]):
        shop.sell(wheel(f"escape{number}", "1.0", {f"escape{number}.py": "", place: "x = 1"}))
        try:
            installer = probe.installer(apart, engine)
            installer.extend(installer.environment(Policy()), [f"escape{number}"], None)
        except PackageError:
            pass
    cache = apart.settings.cache_dir
    assert [path for path in cache.rglob("outside.py") if "site" not in path.parts and "uv" not in path.parts] == []
    assert not os.path.exists("/tmp/belljar-outside.py")


def test_p06_what_one_sandbox_does_to_a_package_no_other_sees(engine: str, shop: Shop) -> None:
    shop.sell(wheel("shared", "1.0", {"shared/__init__.py": "x = 1", "shared/data.txt": "clean"}))
    hostile = """
import os, shared
for folder, _, files in os.walk('/packages'):
    for name in files:
        path = os.path.join(folder, name)
        for act in (lambda: open(path, 'a').write('x = 666'), lambda: os.chmod(path, 0o777), lambda: os.unlink(path),
                    lambda: os.utime(path), lambda: os.truncate(path, 0), lambda: os.link(path, '/workspace/' + name)):
            try:
                act()
                print('did it to', path)
            except (OSError, AttributeError):
                pass
shared.x = 666
"""
    with Sandbox(engine, packages=["shared"]) as first:
        ran = first.run(hostile)
        assert (ran.stdout, ran.error) == ("", None)
    with Sandbox(engine, packages=["shared"]) as second:
        assert second.run("import shared; [shared.x, open('/packages/site/shared/data.txt').read()]").value == [
            1,
            "clean",
        ]


@mostly_native
def test_p06_a_wheel_written_into_the_workspace_is_not_what_another_installs(engine: str, shop: Shop) -> None:
    name, content = wheel("honest", "1.0", {"honest.py": "x = 1"})
    shop.sell((name, content))
    with Sandbox(engine, files={name: wheel("honest", "1.0", {"honest.py": "x = 666"})[1]}) as first:
        first.run(f"import shutil; shutil.copy({name!r}, '/tmp'); shutil.copy({name!r}, '/home/sandbox')")
        with Sandbox(engine, packages=["honest"]) as second:
            assert second.run("import honest; honest.x").value == 1


def test_p07_a_package_without_end_is_stopped_and_the_sandbox_goes_on(
    engine: str, shop: Shop, apart: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(wheel("whale", "1.0", {"whale.py": "", "whale.bin": bytes(80_000_000)}))
    builder: Any = probe.installer(apart, engine)
    monkeypatch.setattr(builder, "settings", replace(builder.settings, install_mb=20))
    with Sandbox(engine) as sandbox:
        sandbox.run("x = 1")
        with pytest.raises(PackageError, match=r"larger than the 20 MB that may be installed|are too much for it"):
            sandbox.install("whale")
        assert sandbox.run("x").value == 1


def test_p07_an_index_that_never_answers_does_not_hold_a_run_up_for_long(
    engine: str, shop: Shop, apart: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.slow_s = 60
    monkeypatch.setattr("belljar.host.sandbox_packages.AUTOMATIC_S", 2.0)
    installer, tries = probe.installer(apart, engine), []
    extend = installer.extend
    monkeypatch.setattr(installer, "extend", lambda *given: (tries.append(given), extend(*given))[1])
    with Sandbox(engine) as sandbox:
        started = time.monotonic()
        ran = sandbox.run("def later():\n    import slow_a, slow_b, slow_c, slow_d, slow_e\nimport slowpoke")
        assert ran.error.code == "MODULE_NOT_FOUND"
        assert "slowpoke, slow-a, slow-b, slow-c, slow-d, slow-e could not be installed" in ran.error.hint
        assert len(tries) == 1
        assert time.monotonic() - started < 40
        assert sandbox.run("1").value == 1


def test_p07_endless_backtracking_ends_at_the_time_limit(
    engine: str, shop: Shop, apart: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(1, 13):
        shop.sell(wheel("maze", f"{version}", {"maze.py": ""}, [f"wall<{version}", f"wall>{version}"]))
        shop.sell(wheel("wall", f"{version}", {"wall.py": ""}, ["maze>99"]))
    builder: Any = probe.installer(apart, engine)
    monkeypatch.setattr(builder, "settings", replace(builder.settings, install_timeout_s=15))
    started = time.monotonic()
    with Sandbox(engine) as sandbox:
        with pytest.raises(PackageError, match="maze could not be installed"):
            sandbox.install("maze")
        assert time.monotonic() - started < 60
        assert sandbox.run("1").value == 1


@mostly_native
def test_a_finder_of_the_code_that_misbehaves_is_the_runs_own_affair(
    engine: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("belljar.host.sandbox_packages.LOOK_S", 1.0)
    with Sandbox(engine) as sandbox:
        for act, status in (
            ("raise SystemExit", "ok"),
            ("__import__('os')._exit(9)", "crashed"),
            ("__import__('time').sleep(600)", "timeout"),
        ):
            sandbox.run(
                f"import sys\nclass Finder:\n    def find_spec(self, *_):\n        {act}\n"
                "sys.meta_path.insert(0, Finder())"
            )
            ran = sandbox.run("import whatever_it_is", timeout=1)
            assert ran.status == status, act
        sandbox.reset()
        assert sandbox.run("1").value == 1
    assert shop.asked == []
