"""Packages from addresses that the operator allows: git, source archives and wheels, built behind the wall."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import engines, probe
from tests.forge import Forge, packed, project
from tests.shop import Shop, wheel

from belljar import InvalidRequest, PackageError, Policy, Sandbox
from belljar.compose import LocalHost

# What a build must not be able to do, each told in a module of the package that is built.
HOSTILE = """
import os, socket
found = []
for host in (('127.0.0.1', int(open('PORT').read())), ('1.1.1.1', 80)):
    try:
        socket.create_connection(host, 2)
        found.append(f'reached {host}')
    except OSError:
        pass
found += [name for name in os.environ if 'SECRET' in name or 'INDEX' in name or name.startswith('BELLJAR_')]
for path in open('PLACES').read().split():
    try:
        os.stat(path)
        found.append(f'saw {path}')
    except OSError:
        pass
    try:
        open(path + '/trace', 'w').close()
        found.append(f'wrote {path}')
    except OSError:
        pass
open('told.py', 'w').write(f'found = {found!r}')
"""


@pytest.fixture
def forge(tmp_path: Path, shop: Shop, apart: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    """Everything below its address is allowed, but for /private/."""
    made = Forge(tmp_path)
    sources = tuple(f"{made.address}/{path}" for path in ("open/", "open.git", "files/"))
    allowed = replace(apart.settings, package_sources=sources)
    probe.use_settings(monkeypatch, apart, allowed)
    yield made
    made.close()


@pytest.fixture(params=["native", "wasm"])
def engine(request: pytest.FixtureRequest, forge: Forge, apart: LocalHost, native: None) -> str:
    return engines.prepared(request.param, apart).name


def test_a_repository_is_built_in_a_sandbox_and_installed(engine: str, forge: Forge, shop: Shop) -> None:
    shop.sell(wheel("plough", "1.0", {"plough.py": "depth = 3"}), wheel("numpy", "0.1", {"numpy.py": "own = 4"}))
    before = "import plough, numpy; open('field.py', 'w').write(f'x = {plough.depth + numpy.own}')"
    first = project("field", "1.0", {"before.py": before}, requires='["plough>=1", "numpy==0.1"]')
    address = forge.commit("open", first, tag="v1")
    forge.commit("open", {"NAME": "field 2.0"})
    with Sandbox(engine) as sandbox:
        sandbox.run("kept = 1")
        assert sandbox.install(f"{address}@v1") == ["field==1.0"]
        assert sandbox.run("import field; [kept, field.x]").value == [1, 7]
        assert sandbox.run("__import__('importlib.util').util.find_spec('plough')").value is None
    with Sandbox(engine, packages=[f"field @ {address}"]) as sandbox:
        ran = sandbox.run("import field, os; ['direct_url.json' in os.listdir(folder) for folder in"
                          " __import__('glob').glob('/packages/site/*.dist-info')]")  # fmt: skip
        assert (ran.value, ran.error) == ([False], None)
        assert "field==2.0" in sandbox.run("1", packages=[f"field @ {address}"]).packages_installed


@pytest.mark.parametrize("engine", ["native", pytest.param("wasm", marks=pytest.mark.long)], indirect=True)
def test_archives_and_wheels_by_address_and_what_they_should_have_been(engine: str, forge: Forge) -> None:
    archive, (name, content) = (
        packed(project("hedge", "1.0", {"hedge.py": "x = 1"})),
        wheel("rose", "3", {"rose.py": ""}),
    )
    forge.files |= {"/files/hedge-1.0.tar.gz": archive, f"/files/{name}": content}
    forge.elsewhere |= {"/files/moved.tar.gz": "/files/hedge-1.0.tar.gz", "/files/gone.tar.gz": "/private/x.tar.gz"}
    digest = hashlib.sha256(content).hexdigest()
    with Sandbox(engine) as sandbox:
        assert sandbox.install(f"{forge.address}/files/moved.tar.gz") == ["hedge==1.0"]
        assert sandbox.install(f"rose @ {forge.address}/files/{name}#sha256={digest}") == ["rose==3"]
        assert sandbox.run("import hedge, rose; hedge.x").value == 1
        for wrong, told in {
            f"rose @ {forge.address}/files/{name}#sha256={'0' * 64}": f"its sha256 is {digest}, and must be 000",
            f"lily @ {forge.address}/files/{name}": "it is 'rose', not 'lily'",
            f"{forge.address}/files/gone.tar.gz": "its server sends one elsewhere",
            f"{forge.address}/files/none.tar.gz": "the answer of its server is 404",
        }.items():
            with pytest.raises(PackageError, match=told):
                sandbox.install(wrong)
        with pytest.raises(InvalidRequest, match="is not allowed here; BELLJAR_PACKAGE_SOURCES has"):
            sandbox.install(f"{forge.address}/private/{name}")
    assert not [path for path in forge.asked if path.startswith("/private")]


def test_p03_a_wheel_by_address_that_names_another_address_or_a_file_is_refused(
    engine: str, forge: Forge, tmp_path: Path
) -> None:
    name, content = wheel("secret", "1.0", {"secret.py": "x = 1"})
    (tmp_path / name).write_bytes(content)
    forge.files[f"/private/{name}"] = content
    with Sandbox(engine) as sandbox:
        for number, place in enumerate([f"{forge.address}/private/{name}", (tmp_path / name).as_uri()]):
            outer, content = wheel(f"outer{number}", "1.0", {}, [f"secret @ {place}"])
            forge.files[f"/files/{outer}"] = content
            with pytest.raises(PackageError, match="an address, and only names are followed"):
                sandbox.install(f"{forge.address}/files/{outer}")
        assert sandbox.run("__import__('importlib.util').util.find_spec('secret')").value is None
    assert not [path for path in forge.asked if path.startswith("/private")]


def test_what_fails_names_the_address_that_was_written_and_no_place_of_this_machine(
    engine: str, forge: Forge, apart: LocalHost
) -> None:
    name, content = wheel("reed", "1.0", {"reed.py": ""}, ["nowhere-to-be-had"])
    broken, other = wheel(
        "rush", "1.0", {"rush.py": "", "rush-1.0.dist-info/entry_points.txt": "[console_scripts]\nx/y = a:b"}
    )
    forge.files |= {f"/files/{name}": content, f"/files/{broken}": other}
    said = []
    with Sandbox(engine) as sandbox:
        for file in (name, broken):
            try:
                sandbox.install(f"{forge.address}/files/{file}")
            except PackageError as failure:
                said.append(str(failure))
    assert said[0].startswith(f"{forge.address}/files/{name} could not be installed: ")
    for told in said:
        assert not any(
            place in told for place in (str(apart.settings.cache_dir), "/built/", "python3", "Using ", ".new-")
        )


def test_p03_a_build_sees_no_network_no_secret_and_no_host(
    forge: Forge, native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "1")
    places = [str(tmp_path), os.path.expanduser("~/.cache"), str(Path(__file__).parent)]
    port = forge.address.rpartition(":")[2]
    hostile = {"before.py": HOSTILE, "PORT": port, "PLACES": "\n".join(places)}
    address = forge.commit("open", project("told", "1.0", hostile))
    with Sandbox("native") as sandbox:
        assert sandbox.install(address) == ["told==1.0"]
        assert sandbox.run("import told; told.found").value == []
    assert not any(Path(place, "trace").exists() for place in places)


def test_a_build_that_fails_or_never_ends_is_told_and_the_sandbox_goes_on(
    forge: Forge, native: None, apart: LocalHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = forge.commit("open", project("bad", "1.0", {"before.py": "1/0"}), tag="broken")
    forge.commit("open", {"before.py": "while True: pass"}, tag="endless")
    forge.commit("open", {"pyproject.toml": '[build-system]\nrequires = ["x @ git+https://a/b"]'}, tag="greedy")
    forge.files["/files/a.tar.gz"] = packed({"README": "no project"})
    with Sandbox("native") as sandbox:
        sandbox.run("x = 1")
        for ref, told in {
            "@broken": "its build failed: ZeroDivisionError",
            "@greedy": "its build needs what cannot be installed",
            "@nowhere": "a ref is a branch, a tag or a whole commit id",
        }.items():
            with pytest.raises(PackageError, match=told):
                sandbox.install(address + ref)
        ran = sandbox.run("1", packages=[f"{forge.address}/files/a.tar.gz"])
        assert (ran.error.code, "it is no Python project" in ran.error.value) == ("PACKAGE_INSTALL_FAILED", True)
        with monkeypatch.context() as elsewhere:
            probe.without_builds(elsewhere, apart)
            with pytest.raises(PackageError, match="native engine, which is for Linux; name a wheel instead"):
                sandbox.install(address)
        probe.use_settings(monkeypatch, apart, replace(apart.settings, install_timeout_s=3))
        with pytest.raises(PackageError, match="its build failed"):
            sandbox.install(address + "@endless")
        assert sandbox.run("x").value == 1
    assert apart.host.sessions() == []


def test_an_allow_list_names_an_address_as_it_is_or_not_at_all(
    forge: Forge, apart: LocalHost, native: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = forge.commit("open", project("ivy", "1.0", {"ivy.py": ""}))
    with Sandbox("native", policy=Policy(packages=["ivy"])) as sandbox:
        with pytest.raises(PackageError, match="may not be installed here"):
            sandbox.install(address)
    with Sandbox("native", policy=Policy(packages=[address.replace("http://", "HTTP://")])) as sandbox:
        assert sandbox.install(address) == ["ivy==1.0"]
        sandbox.run("import ivy").raise_for_status()
        saved = sandbox.checkpoint()
    with Sandbox.restore(saved) as sandbox:  # the address is known again, not the wheel that was built of it
        assert (sandbox.restored.skipped, sandbox.restored.packages_skipped) == ({}, {})
    probe.use_settings(monkeypatch, apart, replace(apart.settings, package_sources=()))
    with Sandbox.restore(saved, policy=Policy()) as sandbox:
        assert list(sandbox.restored.packages_skipped) == [address]
