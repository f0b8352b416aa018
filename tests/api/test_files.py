"""Files in and out of the workspace, and every way out of it that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belljar import DiskFull, FileError, FileMissing, InvalidRequest, Limits, PathRefused, Sandbox

WAYS_OUT = [
    "../x", "a/../../x", "/etc/passwd", "/", "/workspace", "/workspacex/y", "/workspace/../etc/passwd", "a\0b", "..\\x",
    "a\\..\\..\\x", "", ".", "./.", "..", "a/..", "x" * 5000, "/".join(["deep"] * 1250), "x" * 256, "\ud800", None, 7, b"x",
]  # fmt: skip


ACTS = ["write", "read", "delete", "upload", "download"]
# No path at all means the file's own name to upload, and nothing to the others.
REFUSED = [(act, path) for act in ACTS for path in WAYS_OUT if (act, path) != ("upload", None)]


@pytest.mark.parametrize(("act", "path"), REFUSED, ids=lambda value: repr(value)[:30])
def test_ways_out_of_the_workspace_are_refused(shared: Sandbox, tmp_path: Path, act: str, path: Any):
    (tmp_path / "local").write_text("x")
    acts = {
        "write": lambda: shared.files.write(path, "x"),
        "read": lambda: shared.files.read(path),
        "delete": lambda: shared.files.delete(path),
        "upload": lambda: shared.files.upload(tmp_path / "local", path),
        "download": lambda: shared.files.download(path, tmp_path / "target"),
    }
    with pytest.raises(PathRefused):
        acts[act]()
    assert not (tmp_path / "target").exists()
    assert [entry.path for entry in shared.files.list()] == []


@pytest.mark.parametrize("path", ["../x", "/etc", "..", "../..", "a\0b", "x" * 5000])
def test_ways_out_are_not_listed_either(shared: Sandbox, path: str):
    with pytest.raises(PathRefused):
        shared.files.list(path)


@pytest.mark.parametrize(
    "name", ["%2e%2e%2fx", "...", "..x", "a b", "ü€𝄞", "-rf", "~", "$HOME", "a\\b", "new\nline", "\udcff"]
)
def test_odd_names_are_just_names(sandbox: Sandbox, name: str):
    sandbox.files.write(name, "x")
    assert [entry.path for entry in sandbox.files.list()] == [name]
    assert sandbox.run("import os; [os.fsencode(n).hex() for n in os.listdir()]").value == [
        name.encode("utf-8", "surrogateescape").hex()
    ]
    sandbox.files.delete(name)
    assert sandbox.files.list() == []


def test_write_makes_parents_and_replaces(sandbox: Sandbox):
    sandbox.files.write("a/b/c.txt", "one")
    sandbox.files.write("/workspace/a/b/c.txt", b"two\xff")
    assert sandbox.files.read("./a//b/c.txt") == b"two\xff"
    assert [entry.path for entry in sandbox.files.list()] == ["a", "a/b", "a/b/c.txt"]


def test_what_the_host_wrote_belongs_to_the_code(sandbox: Sandbox):
    sandbox.files.write("a/b.txt", "one")
    ran = sandbox.run(
        "import os; open('a/b.txt', 'a').write('!'); os.rename('a/b.txt', 'a/c.txt'); os.stat('a').st_uid"
    )
    assert (ran.status, ran.value) == ("ok", 1000)
    assert sandbox.files.read("a/c.txt") == b"one!"


def test_what_the_code_wrote_can_be_read_and_deleted_whatever_its_mode(sandbox: Sandbox):
    sandbox.run("import os; os.mkdir('d'); open('d/f', 'w').write('x'); os.chmod('d/f', 0)")
    assert sandbox.files.read("d/f") == b"x"
    sandbox.files.delete("d")
    assert sandbox.files.list() == []


def test_list_is_sorted_and_tells_types_and_sizes(sandbox: Sandbox):
    sandbox.run("""
import os
for name in ("b", "a"):
    os.makedirs(name + "/sub")
    open(name + "/sub/2.txt", "w").write("22")
    open(name + "/1.txt", "w").write("1")
os.symlink("/etc/passwd", "link"); os.mkfifo("pipe"); open("Z", "w").close()
""")
    entries = [(entry.path, entry.type) for entry in sandbox.files.list()]
    assert entries == [
        ("Z", "file"), ("a", "directory"), ("a/1.txt", "file"), ("a/sub", "directory"), ("a/sub/2.txt", "file"),
        ("b", "directory"), ("b/1.txt", "file"), ("b/sub", "directory"), ("b/sub/2.txt", "file"),
        ("link", "symlink"), ("pipe", "other"),
    ]  # fmt: skip
    (entry,) = sandbox.files.list("a/sub")
    assert (entry.path, entry.size) == ("a/sub/2.txt", 2)
    assert entry.modified > 1e9
    assert sandbox.files.list("/workspace") == sandbox.files.list(".") == sandbox.files.list()


def test_delete_takes_a_tree_and_leaves_what_its_links_point_to(sandbox: Sandbox):
    sandbox.run(
        "import os; os.makedirs('t/u'); open('safe', 'w').write('1'); os.symlink('../safe', 't/l'); os.symlink('/', 't/u/r')"
    )
    sandbox.files.delete("t")
    assert [entry.path for entry in sandbox.files.list()] == ["safe"]


def test_missing_files_are_missing(sandbox: Sandbox, tmp_path: Path):
    for act in (sandbox.files.read, sandbox.files.delete, sandbox.files.list):
        with pytest.raises(FileMissing, match="'no/where'") as raised:
            act("no/where")
        assert isinstance(raised.value, FileNotFoundError)
    with pytest.raises(FileMissing):
        sandbox.files.download("no/where", tmp_path)


def test_links_of_the_code_lead_nowhere_else(sandbox: Sandbox):
    sandbox.run("""
import os
os.symlink("/etc/passwd", "passwd"); os.symlink("/", "root"); os.symlink("..", "up"); os.symlink("loop", "loop")
os.symlink("/proc/self/fd/0", "magic"); os.mkfifo("pipe"); os.mkdir("folder")
""")
    for path in ("passwd", "root/etc/passwd", "up/etc/passwd", "loop", "magic", "pipe", "folder"):
        with pytest.raises(PathRefused):
            sandbox.files.read(path)
    for path in ("root/tmp/x", "up/x", "loop/x"):
        with pytest.raises(PathRefused):
            sandbox.files.write(path, "x")
    sandbox.files.write("passwd", "replaced")  # the link itself is replaced, not what it points to
    assert sandbox.files.read("passwd") == b"replaced"


def test_upload_and_download_keep_names_and_bytes(sandbox: Sandbox, tmp_path: Path):
    source = tmp_path / "data.bin"
    source.write_bytes(bytes(range(256)) * 1000)
    sandbox.files.upload(source)
    sandbox.files.upload(str(source), "deep/copy.bin")
    (tmp_path / "home").mkdir()
    assert sandbox.files.download("deep/copy.bin", tmp_path / "home") == tmp_path / "home/copy.bin"
    assert (tmp_path / "home/copy.bin").read_bytes() == source.read_bytes()
    assert sandbox.files.download("data.bin", tmp_path / "other.bin").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("data", [None, 7, ["x"], "\ud800"])
def test_content_that_is_not_bytes_is_refused_and_the_old_file_stays(sandbox: Sandbox, data: Any):
    sandbox.files.write("a", "old")
    with pytest.raises(InvalidRequest):
        sandbox.files.write("a", data)
    assert sandbox.files.read("a") == b"old"


def test_a_full_workspace_loses_nothing():
    with Sandbox(limits=Limits(disk_mb=4)) as sandbox:
        sandbox.files.write("a", b"old")
        with pytest.raises(DiskFull, match="raise disk_mb"):
            sandbox.files.write("a", b"x" * (5 << 20))
        assert sandbox.files.read("a") == b"old"
        assert [entry.path for entry in sandbox.files.list()] == ["a"]
        assert sandbox.run("1 + 1").value == 2


def test_a_folder_in_the_way_is_said(sandbox: Sandbox):
    sandbox.files.write("a/b", "x")
    with pytest.raises(FileError):
        sandbox.files.write("a", "x")
    with pytest.raises(PathRefused):
        sandbox.files.write("a/b/c", "x")
    assert sandbox.files.read("a/b") == b"x"


@pytest.fixture(scope="module")
def shared() -> Any:
    with Sandbox() as sandbox:
        yield sandbox
