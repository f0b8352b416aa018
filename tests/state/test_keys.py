"""Keys of installations: made once, kept from others, taken along on purpose only."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from belljar import InvalidRequest, SandboxError
from belljar.state import keys


def test_a_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path):
    first = keys.own_key(tmp_path / "state")
    assert len(first) == 32
    assert keys.own_key(tmp_path / "state") == first
    assert stat.S_IMODE((tmp_path / "state" / "checkpoint.key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["checkpoint.key"]


def test_many_at_once_agree_on_one_key(tmp_path: Path):
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(keys.own_key(tmp_path / "s"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1


def test_a_key_that_others_may_read_is_not_used(tmp_path: Path):
    keys.own_key(tmp_path)
    (tmp_path / "checkpoint.key").chmod(0o644)
    with pytest.raises(SandboxError, match="chmod 600"):
        keys.own_key(tmp_path)


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_damaged_key_is_not_used(tmp_path: Path, content: bytes):
    keys.own_key(tmp_path)
    (tmp_path / "checkpoint.key").write_bytes(content)
    with pytest.raises(SandboxError, match="damaged"):
        keys.own_key(tmp_path)


def test_an_exported_key_is_known_where_it_was_imported(tmp_path: Path):
    here, there = tmp_path / "here", tmp_path / "there"
    keys.import_key(keys.export_key(here), there)
    keys.import_key(keys.export_key(here) + "\n", there)
    assert set(keys.known_keys(there).values()) == {keys.own_key(there), keys.own_key(here)}
    assert set(keys.known_keys(here).values()) == {keys.own_key(here)}


@pytest.mark.parametrize(
    "text", ["", "belljar-key-", "belljar-key-" + "zz" * 32, "00" * 32, "belljar-key-" + "00" * 33]
)
def test_what_is_no_key_is_not_imported(tmp_path: Path, text: str):
    with pytest.raises(InvalidRequest):
        keys.import_key(text, tmp_path)
