"""Packages on the command line: fetched ahead, brought along, and there without an index."""

from __future__ import annotations

import json

import pytest
from tests.shop import Shop, wheel

from belljar.compose import LocalHost


@pytest.fixture
def environment(environment, shop: Shop, apart: LocalHost):
    """Of commands that know the shop, and keep what they fetch apart."""
    return {
        **{name: value for name, value in environment.items() if not name.startswith(("PIP_", "UV_"))},
        "BELLJAR_CACHE_DIR": str(apart.settings.cache_dir), "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": shop.address, "NO_PROXY": "127.0.0.1",
    }  # fmt: skip


@pytest.mark.usefixtures("native")
def test_run_brings_packages_along_and_names_them(belljar, shop: Shop):
    shop.sell(wheel("rowan", "1.0", {"rowan.py": "x = 1"}), wheel("rowan", "2.0", {"rowan.py": "x = 2"}))
    done = belljar("run", "-c", "import rowan; print(rowan.x)", "--package", "rowan<2", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["logs"]["stdout"] == ["1\n"]


@pytest.mark.usefixtures("native")
def test_a_package_that_cannot_be_had_or_meant_is_told(belljar, shop: Shop):
    done = belljar("run", "-c", "1", "--package", "unheard-of")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"there is no package 'unheard-of' on the package index" in done.stderr
    done = belljar("run", "-c", "1", "--package", "git+https://example.org/x.git")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"is not a package that can be installed" in done.stderr


@pytest.mark.parametrize("engine", ["native", "wasm"])
def test_what_was_synced_can_be_had_without_an_index(belljar, shop: Shop, environment, engine: str):
    shop.sell(wheel("sumac", "1.0", {"sumac.py": "x = 3"}, ["thorn"]), wheel("thorn", "1.0", {"thorn.py": "x = 4"}))
    done = belljar("packages", "sync", "sumac", "thorn", "--engine", engine)
    assert done.returncode == 0, done.stderr
    assert b"belljar: sumac==1.0 can be added without an index" in done.stderr
    shop.close()
    environment["PIP_INDEX_URL"] = "http://127.0.0.1:9/simple"
    for package in ("sumac", "thorn") if engine == "native" else ("sumac",):
        done = belljar("run", "--engine", engine, "--package", package, "-c", f"import {package}; print({package}.x)")
        assert (done.returncode, done.stdout) == (0, b"3\n" if package == "sumac" else b"4\n"), done.stderr
