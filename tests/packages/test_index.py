"""The package index as a source, with a real pip and an index on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.packages.conftest import BUNDLE, FILES, LITTLE, WHEELS, Serve, UseIndex, contents, failure, fetched, page

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
    assert pip.command()[1:] == ["tool", "run", "--no-config", "pip"]
