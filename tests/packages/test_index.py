"""The package index as a source, with a real pip and an index on loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.packages.conftest import BUNDLE, FILES, LITTLE, WHEELS, Serve, UseIndex, contents, failure, fetched, page
from tests.shop import source, wheel

from belljar.packages import pip
from belljar.packages.sources.index import Index


def test_the_index_gives_the_bundle_and_what_the_bundle_lacks(serve: Serve, use_index: UseIndex, into: Path) -> None:
    quince = "quince-3.0-py3-none-any.whl"
    served = serve(
        {
            "simple/basket/": page(LITTLE.bundle.name),
            "simple/quince/": page(quince),
            f"files/{LITTLE.bundle.name}": BUNDLE,
            f"files/{quince}": WHEELS[quince],
        }
    )
    use_index(f"{served.address}/simple")
    assert fetched(Index(LITTLE), into) == FILES


def test_what_an_index_has_changed_is_refused(serve: Serve, use_index: UseIndex, into: Path) -> None:
    quince = "quince-3.0-py3-none-any.whl"
    other = WHEELS[quince].replace(b"y = 2", b"y = 3")
    served = serve(
        {
            "simple/basket/": page(LITTLE.bundle.name),
            "simple/quince/": page(quince),
            f"files/{LITTLE.bundle.name}": BUNDLE + b"\0",
            f"files/{quince}": other,
        }
    )
    use_index(f"{served.address}/simple")
    said = failure(Index(LITTLE), into)
    assert f"{LITTLE.bundle.name} from the package index is refused" in said
    assert f"{quince} from the package index is refused" in said
    assert contents(into) == {}


def test_an_index_without_the_bundle_still_gives_what_it_has(serve: Serve, use_index: UseIndex, into: Path) -> None:
    quince = "quince-3.0-py3-none-any.whl"
    served = serve({"simple/quince/": page(quince), f"files/{quince}": WHEELS[quince]})
    use_index(f"{served.address}/simple")
    assert "No matching distribution found for basket==1.2" in failure(Index(LITTLE), into)
    assert contents(into) == {quince: WHEELS[quince]}


def test_pip_that_hangs_is_ended(
    silent_port: int, use_index: UseIndex, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pip, "STALLED_S", 1.0)
    use_index(f"http://127.0.0.1:{silent_port}/simple")
    assert "nothing came for 1 s" in failure(Index(LITTLE), into)
    assert contents(into) == {}


def test_pip_keeps_the_users_index_and_loses_what_would_change_a_download(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, use_index: UseIndex
) -> None:
    monkeypatch.setenv("PIP_TARGET", "/somewhere")
    monkeypatch.setenv("PIP_CERT", "/a/cert")
    kept = pip.environment(tmp_path)
    assert (kept.get("PIP_TARGET"), kept["PIP_CERT"], kept["TMPDIR"]) == (None, "/a/cert", str(tmp_path))
    assert kept["PIP_INDEX_URL"] == "http://127.0.0.1:9/simple"
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "mine=http://127.0.0.1:9/uv")
    assert pip.environment(tmp_path)["PIP_INDEX_URL"] == "http://127.0.0.1:9/uv"


def test_without_a_pip_uv_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip.importlib.util, "find_spec", lambda _: None)
    assert pip.command()[1:3] == ["run", "--no-config"]
    assert pip.command()[-4:] == ["--", "python", "-P", pip.LAUNCHER]


def test_pip_starts_no_program_and_follows_no_address_of_a_package(tmp_path: Path, use_index: UseIndex) -> None:
    trace = tmp_path / "ran"
    name, content = source("inner", "1.0", f"open({str(trace)!r}, 'w').close()\n")
    (tmp_path / name).write_bytes(content)
    inner = (tmp_path / name).as_uri()
    for number, needed in enumerate([f"inner @ {inner}", f"inner[x]@{inner} ; python_version > '3'"]):
        name, content = wheel(f"outer{number}", "1.0", {}, [needed])
        (tmp_path / name).write_bytes(content)
        said = pip_says("--find-links", str(tmp_path), f"outer{number}")
        assert "an address, and only names are followed" in said
    said = pip_says("--use-deprecated", "legacy-resolver", "--find-links", str(tmp_path), "outer0")
    assert "an address, and only names are followed" in said
    assert "nothing is started for a download" in pip_says(f"inner @ {inner}")
    assert not trace.exists()


def test_a_pip_that_cannot_be_kept_from_addresses_is_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "pip" / "_internal"
    for name in ("req/constructors", "exceptions", "cli/req_command", "cli/main"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        for parent in (folder.parent, folder, (folder / name).parent):
            (parent / "__init__.py").touch()
        (folder / f"{name}.py").write_text(
            "def main(): print('ran')\nInstallationError = install_req_from_req_string = 1"
        )
    env = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(pip.command(), env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "this pip cannot be kept from following addresses" in done.stderr


def pip_says(*arguments: str) -> str:
    argv = [*pip.command(), "download", "--no-index", "--only-binary", ":all:", "--no-build-isolation", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return done.stdout + done.stderr
