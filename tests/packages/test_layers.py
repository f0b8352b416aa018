"""Layers of added packages, made by the real clients from an index on loopback."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests import engines
from tests.shop import Files, Shop, source, wheel

from belljar.compose import LocalHost
from belljar.packages import lookup, remembered
from belljar.packages.cpython_installer import CPythonInstaller
from belljar.packages.environment import Environment
from belljar.packages.failure import InstallFailed
from belljar.packages.lock import alone
from belljar.packages.pyodide_installer import PyodideInstaller
from belljar.policy import Policy

Extend = Callable[..., Environment]
Installer = CPythonInstaller | PyodideInstaller
# What has nothing to do with the client; with the slower one it takes long.
mostly_native = pytest.mark.parametrize(
    "installer", ["native", pytest.param("wasm", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture(params=["native", "wasm"])
def installer(request: pytest.FixtureRequest, apart: LocalHost) -> Installer:
    found = engines.prepared(request.param, apart)
    assert isinstance(found, CPythonInstaller | PyodideInstaller)
    return found


@pytest.fixture
def extend(installer: Installer, shop: Shop) -> Extend:
    """Add packages to the base environment."""

    def add(*wanted: str, seconds: float | None = None, to: Environment | None = None) -> Environment:
        return installer.extend(to or installer.environment(Policy()), wanted, seconds)

    return add


def failure(extend: Extend, *wanted: str, seconds: float | None = None) -> tuple[str, str]:
    with pytest.raises(InstallFailed) as caught:
        extend(*wanted, seconds=seconds)
    return caught.value.kind, str(caught.value)


def added(environment: Environment) -> set[str]:
    return {*environment.packages} - {*environment.ground.packages}


def test_a_package_comes_with_its_dependencies_and_what_is_there_is_not_fetched_again(
    extend: Extend, shop: Shop
) -> None:
    shop.sell(
        wheel("apple", "1.0", {"apple/__init__.py": ""}, ["core-of-apple>=2", "numpy"]),
        wheel("core-of-apple", "1.0", {"core.py": ""}),
        wheel("core-of-apple", "2.1", {"core.py": ""}),
        wheel("numpy", "99.0", {"numpy.py": ""}),
    )
    found = extend("apple")
    assert added(found) == {"apple==1.0", "core-of-apple==2.1"}
    assert (found.layer / "apple" / "__init__.py").exists()
    assert found.is_warm
    assert not [path for path in shop.asked if "numpy-99" in path]


def test_the_same_request_is_asked_of_the_index_once_and_requests_that_come_to_the_same_share_one_folder(
    extend: Extend, shop: Shop
) -> None:
    shop.sell(wheel("banana", "1.0", {"banana.py": ""}))
    first = extend("banana")
    shop.asked.clear()
    assert extend("banana") == first
    assert shop.asked == []
    assert extend("banana>=1").layer == first.layer


def test_versions_ranges_and_extras_are_respected(extend: Extend, shop: Shop) -> None:
    for version in ("1.0", "1.5", "2.0"):
        shop.sell(wheel("date", version, {"date.py": ""}, ["stone; extra == 'more'"]))
    shop.sell(wheel("stone", "1.0", {"stone.py": ""}))
    assert added(extend("date")) == {"date==2.0"}
    assert added(extend("date==1.0")) == {"date==1.0"}
    assert added(extend("date>=1.1,<2")) == {"date==1.5"}
    assert added(extend("date[more]")) == {"date==2.0", "stone==1.0"}


def test_a_second_installation_keeps_what_the_first_brought(extend: Extend, shop: Shop) -> None:
    shop.sell(wheel("elder", "1.0", {"elder.py": ""}), wheel("fig", "1.0", {"fig.py": ""}, ["elder"]))
    first = extend("elder")
    shop.sell(wheel("elder", "2.0", {"elder.py": ""}))
    assert added(extend("fig", to=first)) == {"elder==1.0", "fig==1.0"}


def test_another_version_of_what_is_preinstalled_replaces_it_and_nothing_imported_ahead_is_used(
    extend: Extend, shop: Shop
) -> None:
    shop.sell(wheel("tabulate", "0.0.1", {"tabulate.py": "__version__ = '0.0.1'"}))
    found = extend("tabulate==0.0.1")
    assert added(found) == {"tabulate==0.0.1"}
    assert not found.is_warm


def test_what_is_missing_has_no_build_or_contradicts_itself_is_told_apart_and_no_source_is_run(
    extend: Extend, shop: Shop, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    shop.sell(
        source("grape", "1.0", f"open({str(trace)!r}, 'w')"),
        wheel("guava", "1.0", {}, ["lime<1"]),
        wheel("lime", "2.0", {}),
    )
    kind, said = failure(extend, "unheard-of")
    assert (kind, "unheard-of" in said) == ("missing", True)
    assert failure(extend, "grape")[0] == "no_build"
    assert not trace.exists()
    kind, said = failure(extend, "guava")
    assert (kind, "wanted.txt" in said) == ("conflict", False)
    assert failure(extend, "lime==7")[0] == "conflict"


def test_bytes_that_the_index_did_not_announce_are_refused(extend: Extend, shop: Shop) -> None:
    name, content = wheel("ivy", "1.0", {"ivy.py": ""})
    shop.sell((name, content))
    shop.announced[name] = hashlib.sha256(b"something else").hexdigest()
    assert failure(extend, "ivy")[0] == "refused"


def test_an_index_that_never_answers_costs_the_time_that_was_given(extend: Extend, shop: Shop) -> None:
    shop.sell(wheel("juniper", "1.0", {"juniper.py": ""})).slow_s = 40
    started = time.monotonic()
    kind, said = failure(extend, "juniper", seconds=2)
    assert kind in ("too_slow", "unreachable")
    assert "juniper could not be installed" in said
    assert time.monotonic() - started < 30


def test_a_package_larger_than_allowed_is_refused_and_what_was_downloaded_of_it_removed(
    extend: Extend, installer: Installer, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(wheel("kiwi", "1.0", {"kiwi.py": "", "kiwi.bin": os.urandom(3_000_000)}))
    monkeypatch.setattr(installer, "settings", replace(installer.settings, install_mb=1))
    assert failure(extend, "kiwi") == (
        "too_large",
        "kiwi could not be installed: it is larger than the 1 MB that may be installed",
    )
    cache = installer.settings.cache_dir
    assert list((cache / "uv").glob(".tmp*")) == []
    assert list((cache / "wasm" / "wheels").rglob("kiwi*")) == []


def test_without_an_index_what_was_installed_once_is_there_and_the_rest_is_told(
    extend: Extend, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(wheel("lemon", "1.0", {"lemon.py": ""}))
    first = extend("lemon")
    shop.close()
    monkeypatch.setattr(remembered, "FRESH_S", 0.0)
    assert extend("lemon") == first
    assert failure(extend, "mango")[0] == "unreachable"
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert extend("lemon") == first


def test_what_an_address_or_another_index_gave_is_never_taken_for_the_indexs_own(
    extend: Extend, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(wheel("poplar", "1.0", {"poplar.py": ""}), wheel("popinjay", "1.0", {"popinjay.py": ""}, ["poplar"]))
    name, content = wheel("poplar", "99.0", {"poplar.py": "evil = True"})
    (tmp_path / name).write_bytes(content)
    assert added(extend(f"poplar @ {(tmp_path / name).as_uri()}")) == {"poplar==99.0"}
    assert added(extend("poplar")) == {"poplar==1.0"}
    other = Shop().sell((name, content))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PIP_INDEX_URL", other.address)
        lookup.forget()
        assert added(extend("poplar<100")) == {"poplar==99.0"}
    other.close()
    lookup.forget()
    assert added(extend("poplar<101", "popinjay")) == {"poplar==1.0", "popinjay==1.0"}
    shop.close()
    assert added(extend("poplar>=1", "popinjay")) == {"poplar==1.0", "popinjay==1.0"}


@mostly_native
def test_modules_are_compiled_but_for_large_ones_and_nothing_grows_beyond_its_bound(
    extend: Extend, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = random.Random(1).randbytes(600_000).hex()
    files: Files = {"bulk.py": f"x = '{digits[:900_000]}'", "bulk_large.py": f"x = '{digits}'"}
    shop.sell(wheel("bulk", "1.0", files), wheel("bulk", "2.0", files))
    assert compiled(extend("bulk==1.0")) == {"bulk"}
    monkeypatch.setattr("belljar.packages.uv.COMPILER_BYTES", 1 << 20)
    monkeypatch.setattr("belljar.engines.wasm.layer.COMPILER_BYTES", 1 << 20)
    without = extend("bulk==2.0")
    assert (added(without), compiled(without)) == ({"bulk==2.0"}, set())


def compiled(environment: Environment) -> set[str]:
    """The modules that a layer has compiled."""
    assert environment.layer is not None
    pack = environment.layer.parent / "pack.json"
    if pack.exists():
        folder = json.loads(pack.read_text()).get("__pycache__", "{}")  # a text in it, like every folder at the top
        return {name.partition(".")[0] for name in json.loads(folder)}
    return {path.name.partition(".")[0] for path in environment.layer.glob("__pycache__/*")}


def test_a_wheelhouse_serves_without_an_index(
    extend: Extend, installer: Installer, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (wheel("nut", "1.0", {"nut.py": ""}, ["shell"]), wheel("shell", "1.0", {"shell.py": ""})):
        (tmp_path / name).write_bytes(content)
    shop.close()
    monkeypatch.setattr(installer, "settings", replace(installer.settings, wheelhouse=tmp_path))
    assert added(extend("nut")) == {"nut==1.0", "shell==1.0"}


@mostly_native
def test_what_an_installation_that_was_killed_left_is_removed_and_another_that_works_is_spared(
    extend: Extend, installer: Installer, shop: Shop
) -> None:
    home = installer.settings.cache_dir / "environments" / "layers"
    for name in (".new-killed", ".new-working"):
        (home / name).mkdir(parents=True)
        (home / name / "lock").touch()
    with alone(home / ".new-working" / "lock"):
        failure(extend, "unheard-of")
        assert [path.name for path in home.glob(".new-*")] == [".new-working"]
    failure(extend, "unheard-of")
    assert list(home.glob(".new-*")) == []


@mostly_native
def test_the_layer_that_was_not_used_for_longest_gives_way_and_one_in_use_never(
    extend: Extend, installer: Installer, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orange", "papaya", "quava"):
        shop.sell(wheel(name, "1.0", {f"{name}.py": "", f"{name}.bin": os.urandom(400_000)}))
    bound = replace(installer.settings, layers_mb=1)
    monkeypatch.setattr(installer, "settings", bound)
    used, unused = extend("orange"), extend("papaya").layer
    third = extend("quava")
    assert used.layer.exists()
    assert third.layer.exists()
    assert not unused.exists()
    used_layer = used.layer
    del used
    gc.collect()
    assert extend("papaya").layer.exists()
    assert not used_layer.exists()


@mostly_native
def test_a_layer_that_another_process_has_stays(
    extend: Extend, installer: Installer, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("raisin", "sloe"):
        shop.sell(wheel(name, "1.0", {f"{name}.py": "", f"{name}.bin": os.urandom(700_000)}))
    monkeypatch.setattr(installer, "settings", replace(installer.settings, layers_mb=1))
    first = extend("raisin").layer
    gc.collect()
    code = (
        "import sys; from pathlib import Path; from belljar.packages.holds import hold;"
        " held = hold(Path(sys.argv[1])); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(first.parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        extend("sloe")
        assert first.exists()
        other.communicate(b"\n")
    gc.collect()
    shop.sell(wheel("tamarind", "1.0", {"tamarind.py": ""}))
    extend("tamarind")
    assert not first.exists()
