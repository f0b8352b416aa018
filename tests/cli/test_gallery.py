import base64
from pathlib import PurePosixPath

import pytest

from belljar.errors import FileMissing
from belljar.execution import ChangedFile, Execution, Result
from belljar.surfaces.cli.gallery import Gallery, inside

PNG = base64.b64encode(b"\x89PNG").decode()


class Files:
    def __init__(self, contents):
        self._contents = contents

    def read(self, path):
        if path not in self._contents:
            raise FileMissing(f"there is no {path}")
        return self._contents[path]


class SandboxWithFiles:
    def __init__(self, contents):
        self.files = Files(contents)


def changed(*paths):
    return Execution(files=[ChangedFile(path, 0, "") for path in paths])


def test_images_are_numbered_across_runs_and_texts_are_not_images(tmp_path):
    gallery = Gallery(tmp_path / "out")
    assert list(gallery.save_images([Result(text="4")])) == []
    assert not (tmp_path / "out").exists()
    first = list(gallery.save_images([Result(png=PNG, text="<Figure>"), Result(svg="<svg/>")]))
    second = list(gallery.save_images([Result(jpeg=PNG)]))
    assert [path.name for path in first + second] == ["figure-1.png", "figure-2.svg", "figure-3.jpg"]
    assert [path.read_bytes() for path in first + second] == [b"\x89PNG", b"<svg/>", b"\x89PNG"]


def test_an_image_never_takes_the_name_of_a_file_of_the_code(tmp_path):
    (path,) = Gallery(tmp_path).save_images([Result(png=PNG)], taken=["figure-1.png"])
    assert path.name == "figure-2.png"


def test_changed_files_come_with_their_folders_and_uploads_stay_away(tmp_path):
    sandbox = SandboxWithFiles({"a/b.txt": b"new", "in.csv": b"as it was", "in2.csv": b"changed"})
    execution = changed("a/b.txt", "in.csv", "in2.csv")
    saved = dict(Gallery(tmp_path).save_files(sandbox, execution, {"in.csv": b"as it was", "in2.csv": b"before"}))
    assert saved == {"a/b.txt": tmp_path / "a/b.txt", "in2.csv": tmp_path / "in2.csv"}
    assert (tmp_path / "a/b.txt").read_bytes() == b"new"


def test_a_file_that_cannot_be_fetched_does_not_stop_the_others(tmp_path):
    sandbox = SandboxWithFiles({"a": b"1", "a/b": b"2", "c": b"3"})
    saved = dict(Gallery(tmp_path).save_files(sandbox, changed("gone", "a", "a/b", "c"), {}))
    assert saved["gone"] == "there is no gone"
    assert "File exists" in saved["a/b"]
    assert (tmp_path / "c").read_bytes() == b"3"


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "/workspace/../etc/x", "", ".", "/workspace", "a\0b"]
)
def test_a_path_from_inside_never_leads_out_of_the_folder(tmp_path, path):
    assert inside(path) is None
    saved = dict(Gallery(tmp_path).save_files(SandboxWithFiles({}), changed(path), {}))
    assert saved == {path: "the path leaves the workspace"}


def test_a_path_may_be_given_from_the_root_of_the_sandbox():
    assert inside("/workspace/a/b") == PurePosixPath("a/b")
