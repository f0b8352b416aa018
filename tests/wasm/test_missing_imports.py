"""A failed import in a wasm sandbox says why: a typo, no such package, no build for it, or an index that does not answer."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator

import pytest
from tests.conftest import forget

from belljar import Sandbox
from belljar.compose import LocalHost

PAGES = {
    "/simple/pureandsimple/": "pureandsimple-1.0-py3-none-any.whl",
    "/simple/onlycompiled/": "onlycompiled-1.0-cp314-cp314-manylinux_2_28_x86_64.whl",
}


@pytest.fixture
def index(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pip asks a little index on loopback, and nothing else."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield from _using(host, monkeypatch, f"http://127.0.0.1:{server.server_port}/simple")
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_index(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pip asks where nobody listens."""
    yield from _using(host, monkeypatch, "http://127.0.0.1:9/simple")


def _using(host: LocalHost, monkeypatch: pytest.MonkeyPatch, address: str) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    forget(host)
    yield
    forget(host)


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = PAGES.get(self.path)
        body = f'<a href="../../files/{name}">{name}</a>'.encode() if name else b""
        self.send_response(200 if name else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def hint(sandbox: Sandbox, module: str) -> str:
    ran = sandbox.run(f"import {module}")
    assert (ran.status, ran.error.name, ran.error.code) == ("error", "ModuleNotFoundError", "MODULE_NOT_FOUND")
    assert ran.error.value == f"No module named '{module}'"
    return ran.error.hint


@pytest.mark.usefixtures("no_index")
def test_a_typo_gets_the_nearest_name_without_asking_anybody(wasm: Sandbox):
    assert hint(wasm, "pnadas") == "No module is named 'pnadas'; did you mean 'pandas'?"
    assert hint(wasm, "matplotlab") == "No module is named 'matplotlab'; did you mean 'matplotlib'?"


@pytest.mark.usefixtures("index")
def test_a_package_that_nobody_has_is_called_missing(wasm: Sandbox):
    assert "there is no package 'zzznosuchthing' on the package index" in hint(wasm, "zzznosuchthing")


@pytest.mark.usefixtures("index")
def test_a_package_without_a_build_is_told_as_such(wasm: Sandbox):
    assert "no build for the wasm engine" in hint(wasm, "onlycompiled")
    assert hint(wasm, "yaml").endswith("Use engine='native', which has it.")
    assert "compiles to machine code" in hint(wasm, "numba")


@pytest.mark.usefixtures("index")
def test_a_package_whose_file_the_index_lost_is_told_as_such(wasm: Sandbox):
    assert "pureandsimple could not be installed" in hint(wasm, "pureandsimple")


@pytest.mark.usefixtures("no_index")
def test_with_the_index_out_of_reach_nothing_is_claimed(wasm: Sandbox):
    assert "the package index cannot be reached" in hint(wasm, "zzznosuchthing")
    assert "the package index could not be reached a moment ago" in hint(wasm, "pureandsimple")


@pytest.mark.usefixtures("no_index")
def test_a_sandbox_without_packages_says_that_it_was_made_so(bare: Sandbox):
    assert "was made with packages='none'" in hint(bare, "pandas")


@pytest.mark.usefixtures("no_index")
def test_an_import_that_the_code_catches_costs_and_says_nothing(wasm: Sandbox):
    ran = wasm.run("try:\n    import zzznosuchthing\nexcept ImportError:\n    found = False\nfound")
    assert (ran.status, ran.value, ran.error) == ("ok", False, None)
