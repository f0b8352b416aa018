"""Landlock on its own: what a process may still do with files once it has restricted itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from belljar.engines.native.libraries import linkage
from belljar_jail import landlock, linux


def restricted(act: Callable[[], object], readable: list[str], writable: list[str]) -> str:
    """The outcome of an act in a fork of this process that was restricted first: `done`, or the error's name."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "unfinished"
        try:
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            landlock.restrict(readable, writable)
            act()
            said = "done"
        except BaseException as failure:
            said = type(failure).__name__
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as words:
        said = words.read()
    os.waitpid(pid, 0)
    return said


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A readable, a writable and a forbidden folder, each with a file."""
    if landlock.abi() == 0:
        pytest.skip("this kernel has no Landlock")
    made = tmp_path / "readable", tmp_path / "writable", tmp_path / "forbidden"
    for folder in made:
        folder.mkdir()
        (folder / "file").write_text("content")
    return made


def test_each_folder_gives_what_its_rule_says_and_no_more(folders: tuple[Path, Path, Path]):
    readable, writable, _ = folders
    lists = [str(readable)], [str(writable)]
    outcomes = {
        (verb, folder.name): restricted(act, *lists)
        for folder in folders
        for verb, act in {
            "read": (folder / "file").read_text,
            "write": lambda f=folder: (f / "file").write_text("x"),
            "create": lambda f=folder: (f / "new").write_text("x"),
            "make folder": lambda f=folder: (f / "folder").mkdir(),
            "link": lambda f=folder: (f / "link").symlink_to("x"),
            "delete": lambda f=folder: (f / "file").unlink(),
            "truncate": lambda f=folder: os.truncate(f / "file", 0),
            "list": lambda f=folder: os.listdir(f),
        }.items()
    }
    denied = {key for key, outcome in outcomes.items() if outcome == "PermissionError"}
    changing = {"write", "create", "make folder", "link", "delete", "truncate"}
    if landlock.abi() < 3:
        changing -= {"truncate"}
    expected = {(verb, "readable") for verb in changing} | {(verb, "forbidden") for verb in changing | {"read"}}
    assert denied == expected


def test_devices_cannot_be_made_even_where_all_may_be_written(folders: tuple[Path, Path, Path]):
    _, writable, _ = folders
    make = lambda: os.mknod(writable / "null", 0o020666, os.makedev(1, 3))  # noqa: E731
    assert restricted(make, [], [str(writable)]) == "PermissionError"


def test_a_descriptor_of_a_path_is_no_way_around(folders: tuple[Path, Path, Path]):
    _, writable, forbidden = folders

    def reopen() -> None:
        held = os.open(forbidden / "file", os.O_PATH)
        os.open(f"/proc/self/fd/{held}", os.O_RDONLY)

    assert restricted(reopen, ["/proc"], [str(writable)]) == "PermissionError"


def test_files_cannot_be_carried_from_one_tree_into_another(folders: tuple[Path, Path, Path]):
    readable, writable, _ = folders
    lists = [str(readable)], [str(writable)]
    assert restricted(lambda: os.rename(readable / "file", writable / "stolen"), *lists) != "done"
    assert restricted(lambda: os.link(readable / "file", writable / "linked"), *lists) != "done"


def test_a_folder_that_is_not_there_is_no_rule(folders: tuple[Path, Path, Path]):
    readable, *_ = folders
    assert restricted((readable / "file").read_text, [str(readable), "/no/such/folder"], []) == "done"


def test_without_landlock_it_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(OSError, match="no Landlock"):
        landlock.restrict([], [])


def test_what_may_be_executed_can_be_named_one_by_one(folders: tuple[Path, Path, Path]):
    readable, _, _ = folders
    for name in ("named", "other"):
        (readable / name).write_bytes(Path("/bin/true").read_bytes())
        (readable / name).chmod(0o755)

    def outcome(name: str, executable: list[str] | None) -> str:
        def act() -> None:
            if executable is not None:
                landlock.execute_only(executable)
            subprocess.run([str(readable / name)], check=True, env={})

        return restricted(act, ["/"], [])

    named = [str(readable / "named"), linkage(readable / "named").loader or ""]
    assert [outcome("named", named), outcome("other", named)] == ["done", "PermissionError"]
    assert [outcome("named", None), outcome("other", None)] == ["done", "done"]
