"""The workspace as an archive: whatever its code made of it, what can be saved is, and the rest is named."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from belljar_kernel import archive


def test_folders_deeper_than_python_recurses_cost_nothing_and_deeper_than_a_path_is_long_themselves(tmp_path: Path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "top.txt").write_text("top")
    here = os.open(source, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    packed = io.BytesIO()
    (left_out,) = archive.pack(str(source), packed).items()
    assert left_out[0].startswith("d/d/d")
    assert left_out[1] == "File name too long"
    packed.seek(0)
    target.mkdir()
    archive.unpack(packed, str(target))
    assert (target / "top.txt").read_text() == "top"
    assert (target / ("d/" * 1500)).is_dir()


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path):
    (tmp_path / "shut").mkdir(mode=0)
    try:
        assert archive.pack(str(tmp_path), io.BytesIO()) == {"shut": "Permission denied"}
    finally:
        (tmp_path / "shut").chmod(0o700)
