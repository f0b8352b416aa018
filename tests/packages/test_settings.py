"""The two settings for packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from belljar.errors import InvalidRequest
from belljar.settings import Settings


def test_wheelhouse_and_mirror_are_unset_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELLJAR_WHEELHOUSE", raising=False)
    monkeypatch.delenv("BELLJAR_PYODIDE_MIRROR", raising=False)
    settings = Settings.load()
    assert (settings.wheelhouse, settings.pyodide_mirror) == (None, None)


def test_wheelhouse_and_mirror_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BELLJAR_WHEELHOUSE", str(tmp_path))
    monkeypatch.setenv("BELLJAR_PYODIDE_MIRROR", "https://mirror.example/pyodide/")
    settings = Settings.load()
    assert (settings.wheelhouse, settings.pyodide_mirror) == (tmp_path, "https://mirror.example/pyodide/")


@pytest.mark.parametrize(
    "address", ["file:///etc", "mirror.example", "ftp://x", "https://", "https://x/?a=b", "https://x/#a"]
)
def test_a_mirror_that_is_no_web_address_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("BELLJAR_PYODIDE_MIRROR", address)
    with pytest.raises(InvalidRequest, match="BELLJAR_PYODIDE_MIRROR must be an http"):
        Settings.load()


def test_a_password_in_the_mirrors_address_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLJAR_PYODIDE_MIRROR", "https://me:secret@mirror.example/")
    with pytest.raises(InvalidRequest, match="must not carry") as caught:
        Settings.load()
    assert "secret" not in str(caught.value)
