"""The kernel's answers about files: what goes in comes out, and no path leads out of the workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import probe
from tests.kernel.conftest import InProcess

from belljar import DiskFull, FileError, FileMissing, FileTooLarge, PathRefused
from belljar.engines.kernel_workspace import KernelWorkspace
from belljar_kernel.protocol import FILE_PIECE_BYTES

LARGE = bytes(range(256)) * (FILE_PIECE_BYTES // 100)


@pytest.fixture
def files(guest: InProcess) -> KernelWorkspace:
    """The workspace as the host has it, over a kernel in this process."""

    async def ask(request: dict[str, Any]) -> dict[str, Any]:
        return guest.request(**request).done

    return KernelWorkspace(ask)


def wait(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


async def content(files: KernelWorkspace, path: str, most: int = 1 << 30) -> bytes:
    return b"".join([piece async for piece in files.read(path, most)])


def test_what_is_written_is_read_again_with_its_parents(files: KernelWorkspace, workspace: Path):
    for path, data in {"a/b/c.bin": LARGE, "empty": b"", "ü ☃": b"x"}.items():
        wait(files.write(path, data))
        assert wait(content(files, path)) == data
        assert (workspace / path).read_bytes() == data
    assert (workspace / "a/b/c.bin").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("broken", [RuntimeError("the upload broke"), OSError("no such file"), KeyboardInterrupt()])
def test_an_upload_whose_source_breaks_leaves_no_unfinished_file(
    files: KernelWorkspace, workspace: Path, broken: BaseException
):
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"part"
        raise broken

    async def upload() -> None:
        caught = None
        try:
            await files.write("folder/file", pieces())
        except BaseException as error:
            caught = error
        assert caught is broken
        async with asyncio.timeout(30):
            while os.listdir(workspace / "folder"):
                await asyncio.sleep(0.001)

    wait(upload())


def test_a_folder_is_listed_depth_first_with_its_links_and_without_unfinished_files(
    files: KernelWorkspace, workspace: Path
):
    wait(files.write("b/file", b"four"))
    (workspace / "a").symlink_to("b")
    (workspace / "b" / ".belljar-0123456789ab").write_bytes(b"half")
    os.mkfifo(workspace / "c")
    listed = wait(files.list("", 100))
    assert [(each.path, each.type) for each in listed] == [
        ("a", "symlink"), ("b", "directory"), ("b/file", "file"), ("c", "other"),
    ]  # fmt: skip
    assert listed[2].size == 4
    assert listed[2].modified == pytest.approx((workspace / "b/file").stat().st_mtime)
    assert [each.path for each in wait(files.list("a", 100))] == ["a/file"]
    with pytest.raises(FileError, match="more entries"):
        wait(files.list("", 2))


def test_a_file_is_replaced_as_a_whole_and_a_folder_is_not(files: KernelWorkspace, workspace: Path):
    wait(files.write("file", b"old"))

    async def broken() -> Any:
        yield b"half"
        raise FileError("the source ended")

    async def write() -> None:
        with pytest.raises(FileError, match="the source ended"):
            await files.write("file", broken())
        await probe.cleaned(files)

    wait(write())
    assert os.listdir(workspace) == ["file"]
    assert wait(content(files, "file")) == b"old"
    (workspace / "folder").mkdir()
    with pytest.raises(PathRefused, match="is a folder"):
        wait(files.write("folder", b""))
    assert sorted(os.listdir(workspace)) == ["file", "folder"]


def test_what_is_deleted_is_gone_and_what_a_link_points_to_is_not(files: KernelWorkspace, workspace: Path):
    wait(files.write("tree/deep/file", b""))
    wait(files.write("kept/file", b""))
    (workspace / "tree/link").symlink_to("../kept")
    wait(files.delete("tree"))
    assert os.listdir(workspace) == ["kept"]
    assert os.listdir(workspace / "kept") == ["file"]
    with pytest.raises(FileMissing, match="no 'tree'"):
        wait(files.delete("tree"))


@pytest.mark.parametrize("target", ["..", "../outside", "{outside}", "{outside}/secret", "inner/../../outside", "loop"])
def test_no_link_leads_out_of_the_workspace(files: KernelWorkspace, workspace: Path, target: str):
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (workspace / "inner").mkdir()
    (workspace / "loop").symlink_to("loop")
    (workspace / "link").symlink_to(target.format(outside=outside))
    for act in (content(files, "link/secret"), content(files, "link"), files.list("link", 9), files.delete("link/secret"),
                files.write("link/new", b"")):  # fmt: skip
        with pytest.raises(PathRefused):
            wait(act)
    assert os.listdir(outside) == ["secret"]


def test_a_link_within_the_workspace_is_followed_to_read_and_replaced_by_a_write(
    files: KernelWorkspace, workspace: Path
):
    wait(files.write("there/file", b"text"))
    (workspace / "there/link").symlink_to("../there/./file")
    assert wait(content(files, "there/link")) == b"text"
    wait(files.write("there/link", b"new"))
    assert wait(content(files, "there/file")) == b"text"
    assert wait(content(files, "there/link")) == b"new"


def test_only_regular_files_of_a_bounded_size_are_read(files: KernelWorkspace, workspace: Path):
    os.mkfifo(workspace / "pipe")
    (workspace / "folder").mkdir()
    wait(files.write("file", b"12345"))
    with pytest.raises(PathRefused, match="not a regular file"):
        wait(content(files, "pipe"))
    with pytest.raises(PathRefused, match="is a folder"):
        wait(content(files, "folder"))
    with pytest.raises(FileTooLarge):
        wait(content(files, "file", 4))
    with pytest.raises(FileMissing):
        wait(content(files, "file2"))
    with pytest.raises(PathRefused):
        wait(content(files, "file/below"))
    with pytest.raises(PathRefused, match="too long"):
        wait(files.write("x" * 300, b""))


def test_a_disk_that_is_full_is_said_to_be(files: KernelWorkspace, workspace: Path, monkeypatch: pytest.MonkeyPatch):
    import errno

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("belljar_kernel.workspace._write", full)
    with pytest.raises(DiskFull):
        wait(files.write("file", b"x"))
    assert os.listdir(workspace) == []


def test_no_act_seems_done_when_the_code_broke_what_it_needs(files: KernelWorkspace, monkeypatch: pytest.MonkeyPatch):
    wait(files.write("folder/file", b"x"))
    with monkeypatch.context() as broken:
        broken.setattr(os, "listdir", None)
        with pytest.raises(FileError, match="TypeError"):
            wait(files.delete("folder"))
    wait(files.delete("folder"))


@pytest.mark.parametrize("path", ["", ".", "..", "../outside", "a/../b", "a//b", "a/", "/a", "a/.", "a/.."])
def test_a_path_that_is_not_made_of_names_alone_is_refused_by_every_act(
    files: KernelWorkspace, workspace: Path, path: str
):
    wait(files.write("a/b", b"kept"))
    (workspace.parent / "outside").write_bytes(b"kept")
    acts = [files.write(path, b"x"), content(files, path), files.delete(path)]
    for act in [*acts, files.list(path, 9)] if path else acts:
        with pytest.raises(PathRefused, match="leads out"):
            wait(act)
    assert wait(content(files, "a/b")) == b"kept"
    assert (workspace.parent / "outside").read_bytes() == b"kept"


def test_a_folder_without_permission_is_listed_and_does_not_spoil_the_rest(
    files: KernelWorkspace, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    wait(files.write("closed/file", b""))
    wait(files.write("open/file", b""))
    inode = (workspace / "closed").stat().st_ino

    def listed(folder: int) -> list[str]:
        if os.fstat(folder).st_ino == inode:  # the superuser may read every folder
            raise PermissionError(13, "Permission denied")
        return os.listdir(folder)

    monkeypatch.setattr("belljar_kernel.workspace._listdir", listed)
    assert [each.path for each in wait(files.list("", 9))] == ["closed", "open", "open/file"]


def test_an_unknown_act_on_files_is_an_error(guest: InProcess):
    assert guest.request(type="file_burn", path="x").error["value"] == "unknown request 'file_burn'"
