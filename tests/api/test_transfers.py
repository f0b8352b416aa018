"""Large files, several at once, and what a run left that was ended: the same on every engine."""

from __future__ import annotations

import hashlib
import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engines, probe

from belljar import (
    DiskFull,
    FileError,
    FileMissing,
    FileTooLarge,
    InvalidRequest,
    Limits,
    PathRefused,
    Policy,
    Sandbox,
)
from belljar.execution import ChangedFile

MB = 1 << 20


@pytest.fixture(scope="module", params=["native", "wasm"])
def roomy(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox with Python alone and a larger disk, for all tests of one engine."""
    limits = Limits(disk_mb=24, memory_mb=256)
    with engines.required():
        made = Sandbox(request.param, policy=Policy(packages="none"), limits=limits)
    with made:
        yield made


@pytest.fixture(autouse=True)
def empty(roomy: Sandbox) -> Iterator[None]:
    yield
    for entry in roomy.files.list():
        if "/" not in entry.path:
            roomy.files.delete(entry.path)


def test_a_large_file_goes_in_and_out_in_pieces(roomy: Sandbox, tmp_path: Path):
    source = tmp_path / "large.bin"
    with open(source, "wb") as file:
        for number in range(16):
            file.write(bytes([number]) * MB)
    tracemalloc.start()
    try:
        roomy.files.upload(source, "in/large.bin")
        home = roomy.files.download("in/large.bin", tmp_path / "home.bin")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * MB  # a few pieces of it, however large it is
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (source, home)]
    assert sums[0] == sums[1]
    said = roomy.run("import hashlib; hashlib.file_digest(open('in/large.bin', 'rb'), 'sha256').hexdigest()")
    assert said.value == sums[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home.bin", "large.bin"]


def test_an_upload_that_does_not_fit_leaves_what_was_there(roomy: Sandbox, tmp_path: Path):
    roomy.files.write("kept", "old")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(30 * MB)
    with pytest.raises(DiskFull):
        roomy.files.upload(tmp_path / "huge", "kept")
    assert roomy.files.read("kept") == b"old"
    assert [entry.path for entry in roomy.files.list()] == ["kept"]
    with pytest.raises(FileMissing, match="nowhere on this machine"):
        roomy.files.upload(tmp_path / "nowhere")
    with pytest.raises(InvalidRequest, match="regular file"):
        roomy.files.upload(tmp_path)


def test_a_download_is_whole_or_not_at_all(roomy: Sandbox, tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("old")
    with pytest.raises(FileMissing):
        roomy.files.download("missing", target)
    roomy.run("import os; os.mkdir('folder'); os.symlink('/etc/passwd', 'link')")
    for name in ("folder", "link"):
        with pytest.raises(PathRefused):
            roomy.files.download(name, target)
    assert (target.read_text(), [path.name for path in tmp_path.iterdir()]) == ("old", ["target"])
    roomy.files.write("empty", "")
    (tmp_path / "elsewhere").symlink_to(target)
    assert roomy.files.download("empty", tmp_path / "elsewhere").read_bytes() == b""
    assert (tmp_path / "elsewhere").is_symlink()
    with pytest.raises(FileMissing, match="no-folder"):
        roomy.files.download("empty", tmp_path / "no-folder/x")
    for act in (roomy.files.upload, lambda local: roomy.files.download("empty", local)):
        for local in (target / "beneath a file", tmp_path / ("long" * 100)):
            with pytest.raises(FileError):
                act(local)
    assert roomy.files.download("empty", os.devnull) == Path(os.devnull)


def test_a_file_that_is_mostly_holes_costs_no_more_than_the_disk(roomy: Sandbox, tmp_path: Path):
    roomy.run("open('sparse', 'wb').truncate(20 << 20)")
    assert roomy.files.download("sparse", tmp_path / "sparse").stat().st_size == 20 * MB
    taken = 0

    async def read() -> None:
        nonlocal taken
        async for piece in probe.session(roomy).workspace.read("sparse", MB):
            taken += len(piece)

    with pytest.raises(FileTooLarge):
        probe.wait(roomy, read())
    assert taken <= MB


def test_of_several_files_each_has_its_own_error(roomy: Sandbox):
    failures = roomy.files.write_all({"a/b.txt": "b", "../out": "x", "c": b"c", "odd": None, "c/d": "through a file"})
    assert {path: type(failure) for path, failure in failures.items()} == {
        "../out": PathRefused, "odd": InvalidRequest, "c/d": PathRefused,
    }  # fmt: skip
    found = roomy.files.read_all(["a/b.txt", "nope", "a", "c"])
    assert (found["a/b.txt"], found["c"]) == (b"b", b"c")
    assert (type(found["nope"]), type(found["a"])) == (FileMissing, PathRefused)
    assert roomy.files.write_all({}) == {}
    for act in (roomy.files.write_all, roomy.files.read_all):
        with pytest.raises(InvalidRequest):
            act("one")


def test_a_file_on_its_way_in_is_not_shown_before_it_has_its_name(roomy: Sandbox):
    half = ".belljar-0123456789ab"
    for end in ("", "\nos.abort()"):
        ran = roomy.run(f"import os\nfor name in ({half!r}, '.belljar-own'):\n    open(name, 'w').close(){end}")
        assert [file.path for file in ran.files] == [".belljar-own"]
        assert [entry.path for entry in roomy.files.list()] == [".belljar-own"]
        roomy.files.delete(".belljar-own")
    roomy.files.delete(half)


def test_files_of_a_run_that_crashed_are_reported_too(roomy: Sandbox):
    roomy.files.write("before.txt", "old")
    roomy.run("import time; time.sleep(0.05)")
    ran = roomy.run(
        "import os\nos.makedirs('out')\nn = open('out/half.csv', 'w').write('a,b')\nos.abort()", files={"given": "x"}
    )
    assert (ran.status, ran.files) == ("crashed", [ChangedFile("out/half.csv", 3, "text/csv")])
    time.sleep(0.05)  # the clock that stamps files goes in steps
    untold = "import os\nfor name in ('__pycache__', '.cache/deep'):\n    os.makedirs(name)\n    open(name + '/x', 'w').close()"
    assert roomy.run(f"{untold}\nos.abort()").files == []
    for path in ("__pycache__", ".cache"):
        roomy.files.delete(path)
    after = roomy.run("n = open('next.txt', 'w').write('1')")
    assert (after.state, [file.path for file in after.files]) == ("reset", ["next.txt"])
    assert [entry.path for entry in roomy.files.list()] == ["before.txt", "given", "next.txt", "out", "out/half.csv"]


def test_a_download_over_a_file_keeps_who_may_read_it(roomy: Sandbox, tmp_path: Path):
    roomy.files.write("new", "text")
    for mode in (0o600, 0o640, 0o444):
        target = tmp_path / f"{mode:o}"
        target.write_text("old")
        target.chmod(mode)
        roomy.files.download("new", target)
        assert (target.read_text(), target.stat().st_mode & 0o7777) == ("text", mode)
