"""Keys of installations: made once, kept from others, taken along on purpose only."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
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


@pytest.mark.skipif(os.getuid() != 0, reason="only root can read, and give away, a file of another user")
def test_a_key_that_another_user_made_is_not_used(tmp_path: Path):
    keys.own_key(tmp_path)
    os.chown(tmp_path / "checkpoint.key", 65534, 65534)
    with pytest.raises(SandboxError, match="another user"):
        keys.own_key(tmp_path)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_lies_in_the_place_of_a_key_is_told(tmp_path: Path, make: Callable[[Path, int], None]):
    make(tmp_path / "checkpoint.key", 0o600)
    with pytest.raises(SandboxError, match=r"checkpoint\.key"):
        keys.own_key(tmp_path)


def test_a_folder_in_which_no_key_can_be_made_is_told(tmp_path: Path):
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(SandboxError, match="BELLJAR_STATE_DIR"):
        keys.own_key(tmp_path / "state")


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
