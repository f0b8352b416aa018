from __future__ import annotations

import os

from belljar_kernel.files import VISITED, snapshot
from belljar_kernel.protocol import CHANGED_FILES


def changed(answered):
    return [(file["path"], file["size"]) for file in answered.done["files"]]


def test_created_and_changed_files_are_told_once(guest):
    (guest.workspace / "given.txt").write_text("from outside")
    assert changed(guest.run("import os\nos.makedirs('a/b')\nwith open('a/b/c.txt', 'w') as f: f.write('123')")) == [
        ("a/b/c.txt", 3)
    ]
    assert changed(guest.run("1")) == []
    assert changed(guest.run("with open('given.txt', 'a') as f: f.write('!')")) == [("given.txt", 13)]
    assert changed(guest.run("os.remove('given.txt')")) == []


def test_files_are_told_after_an_error(guest):
    assert changed(guest.run("with open('x', 'w') as f: f.write('1')\n1/0")) == [("x", 1)]


def test_links_caches_and_folders_are_not_files(guest):
    code = "import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'folder')\nos.mkdir('__pycache__')\nopen('__pycache__/x.pyc', 'w').close()\nos.makedirs('.cache/deep')\nopen('.cache/deep/x', 'w').close()\nos.mkfifo('fifo')\nopen('real', 'w').close()"
    assert changed(guest.run(code)) == [("real", 0)]


def test_names_that_are_not_text_survive(guest):
    answered = guest.run("open(b'bad\\xff\\nname', 'w').close()")
    assert answered.done["files"] == [{"path": "bad\udcff\nname", "size": 0}]


def test_names_that_are_not_text_survive_a_frame(process):
    answered = process.run("open(b'bad\\xff', 'w').close()")
    assert answered.done["files"] == [{"path": "bad\udcff", "size": 0}]


def test_a_flood_of_files_is_bounded(guest):
    answered = guest.run("import os\nfor n in range(1500): os.close(os.open(f'f{n:04}', os.O_CREAT))")
    assert len(answered.done["files"]) == CHANGED_FILES


def test_a_scan_stops_counting(tmp_path):
    for n in range(VISITED + 100):
        os.close(os.open(tmp_path / str(n), os.O_CREAT))
    assert len(snapshot(str(tmp_path))) == VISITED


def test_a_workspace_that_is_gone_is_no_error(guest):
    assert guest.run("import os, shutil\nshutil.rmtree(os.getcwd())\n1").text == "1"
    assert guest.run("os.path.isdir(os.getcwd())").text == "True"
