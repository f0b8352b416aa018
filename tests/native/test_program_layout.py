"""The plan of what a foreign program sees, and the libraries that it is found to need."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from belljar.engines.confinement import Program
from belljar.engines.native import program_layout
from belljar.engines.native.confined import limits_for
from belljar.engines.native.libraries import Linkage, linkage
from belljar.errors import StartFailed
from belljar.limits import Limits

NEEDS = Linkage("/opt/c/ld.so", ("/opt/c/libc.so.6", "/runtime/lib/libown.so"))


def program(tmp_path: Path) -> Program:
    (tmp_path / "runtime").mkdir(exist_ok=True)
    (tmp_path / "tool").touch()
    return Program(("/bin/tool", "go"), {"/bin/tool": tmp_path / "tool", "/runtime": tmp_path / "runtime"})


def test_its_root_has_its_folders_its_libraries_and_devices_and_nothing_else(tmp_path: Path):
    assert program_layout.plan(program(tmp_path), NEEDS) == [
        {"kind": "folder", "at": "/.program"},
        {"kind": "bind", "at": "/.program/bin/tool", "source": str(tmp_path / "tool")},
        {"kind": "overlay", "at": "/.program/runtime", "lowers": [str(tmp_path / "runtime")]},
        {"kind": "bind", "at": "/.program/opt/c/ld.so", "source": "/opt/c/ld.so"},
        {"kind": "bind", "at": "/.program/opt/c/libc.so.6", "source": "/opt/c/libc.so.6"},
        {"kind": "file", "at": "/.program/dev/null", "text": ""},
        {"kind": "file", "at": "/.program/dev/urandom", "text": ""},
        {"kind": "link", "at": "/.program/proc/self/exe", "to": "/bin/tool"},
        {"kind": "file", "at": "/.program/etc/passwd", "text": "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"},
    ]  # fmt: skip


def test_it_may_execute_itself_and_its_loader_only(tmp_path: Path):
    assert program_layout.executable(program(tmp_path), NEEDS) == ["/bin/tool", "/opt/c/ld.so"]


@pytest.mark.parametrize(
    "path", ["/", "relative", "/a/../b", "/a/", "//a", "/dev/null", "/etc", "/proc", "/proc/self", "/sys/x", ""]
)
def test_a_folder_where_none_may_be_is_refused(path: str):
    with pytest.raises(ValueError):
        Program(("/bin/tool",), {"/bin/tool": Path("/x"), path: Path("/y")})


def test_folders_in_folders_and_executables_outside_are_refused():
    with pytest.raises(ValueError, match="lies in another"):
        Program(("/a/tool",), {"/a": Path("/x"), "/a/tool": Path("/y")})
    with pytest.raises(ValueError, match=r"argv\[0\]"):
        Program(("/b/tool",), {"/a": Path("/x")})
    with pytest.raises(ValueError, match=r"argv\[0\]"):
        Program((), {"/a": Path("/x")})


def test_paths_inside_have_a_place_on_the_host():
    made = Program(("/a/bin/tool",), {"/a": Path("/x/y"), "/ab": Path("/z")})
    assert made.on_host("/a/bin/tool") == Path("/x/y/bin/tool")
    assert (made.on_host("/a"), made.on_host("/ab")) == (Path("/x/y"), Path("/z"))


def test_a_system_program_has_a_loader_and_a_c_library():
    found = linkage(Path(shutil.which("ls") or "/bin/ls"))
    assert found.loader
    assert [path for path in found.libraries if Path(path).name.startswith("libc.so")]
    assert found.loader not in found.libraries
    assert all(Path(path).exists() for path in found.libraries)


def test_what_is_not_there_or_no_program_is_refused(tmp_path: Path):
    with pytest.raises(StartFailed, match="could not be read"):
        linkage(tmp_path / "nothing")
    (tmp_path / "cut").write_bytes(Path("/bin/ls").read_bytes()[:32])
    with pytest.raises(StartFailed, match="could not be read"):
        linkage(tmp_path / "cut")


def test_limits_grow_by_what_the_program_needs_within_their_bounds():
    made = Program(("/a",), {"/a": Path("/x")}, overhead_mb=100, threads=8)
    assert limits_for(made, Limits(memory_mb=64, processes=2)) == Limits(memory_mb=164, processes=10)
    most = Limits(memory_mb=1 << 20, processes=32768)
    assert limits_for(made, most) == most
