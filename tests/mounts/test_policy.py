"""Which folders may be mounted, and where: all of it is said before anything starts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from belljar import InvalidRequest, Policy, Sandbox
from belljar.mounts import checked_mounts
from belljar.settings import Settings


@pytest.mark.parametrize("place", ["/data", "/data/", "/mnt/a/b", "/vault", "/srv/große Daten"])
def test_a_place_of_its_own_is_taken(tmp_path: Path, place: str):
    assert checked_mounts({place: str(tmp_path)}, Settings.load()) == {place.rstrip("/"): os.path.realpath(tmp_path)}


@pytest.mark.parametrize(
    "place",
    ["", "/", "data", "/workspace", "/workspace/data", "/usr/x", "/etc", "/proc/1", "/tmp/x", "/home/sandbox/x",
     "/packages/site", "/.disk", "/data/../etc", "/data/./x", "/data//x", "/a\0b", "/a\nb", "/" + "x" * 256,
     "/x" * 600, "/\ud800"],
)  # fmt: skip
def test_other_places_are_refused(tmp_path: Path, place: str):
    with pytest.raises(InvalidRequest):
        checked_mounts({place: str(tmp_path)}, Settings.load())


def test_mounts_do_not_lie_in_each_other_and_are_not_too_many(tmp_path: Path):
    folder, settings = str(tmp_path), Settings.load()
    for mounts in ({"/data": folder, "/data/x": folder}, {"/data": folder, "/data/": folder}):
        with pytest.raises(InvalidRequest):
            checked_mounts(mounts, settings)
    assert len(checked_mounts({"/data": folder, "/data2": folder}, settings)) == 2
    with pytest.raises(InvalidRequest, match="at most 16"):
        checked_mounts({f"/m{n}": folder for n in range(17)}, settings)


def test_only_folders_that_are_there_and_hold_files_are_mounted(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    folders = [
        str(tmp_path / "none"),
        str(tmp_path / "file"),
        "",
        "x\0y",
        "/",
        "//",
        "/..",
        "/proc",
        "/proc/self",
        "/sys",
        "/dev",
    ]
    for folder in folders:
        with pytest.raises(InvalidRequest):
            checked_mounts({"/data": folder}, Settings.load())


def test_what_belljar_keeps_is_in_no_mount(tmp_path: Path):
    state, cache = tmp_path / "own/state", tmp_path / "own/cache"
    for path in (state / "keys", cache / "deep", tmp_path / "apart"):
        path.mkdir(parents=True)
    (tmp_path / "link").symlink_to(state)
    settings = replace(Settings.load(), state_dir=state, cache_dir=cache)
    for folder in (state, state / "keys", cache, cache / "deep", tmp_path / "own", tmp_path, tmp_path / "link"):
        with pytest.raises(InvalidRequest, match="its own files"):
            checked_mounts({"/data": str(folder)}, settings)
    assert checked_mounts({"/data": str(tmp_path / "apart")}, settings)


def test_a_link_to_a_folder_stands_for_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    found = checked_mounts({"/data": "link"}, Settings.load())
    assert found == checked_mounts({"/data": tmp_path / "link"}, Settings.load())
    assert found == {"/data": os.path.realpath(tmp_path / "real")}


def test_a_sandbox_with_such_a_policy_is_not_even_made(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidRequest, match="not a folder"):
        Sandbox(policy=Policy(mounts={"/data": str(tmp_path / "file")}))
    for mounts in ({"/data": 7}, {7: "x"}, ["/data"], "/data"):
        with pytest.raises(InvalidRequest, match="mounts must map"):
            Policy(mounts=mounts)  # type: ignore[arg-type]
