"""The workspace as an archive: whatever its code made of it, what can be saved is, and the rest is named."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar_kernel import archive


class Packed(io.BytesIO):
    """What was packed, and how much that is."""

    @property
    def size(self) -> int:
        return len(self.getbuffer())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder whose content may be too deep for whoever cleans up after tests."""
    yield tmp_path
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


def test_folders_deeper_than_python_recurses_cost_nothing_and_deeper_than_a_path_is_long_themselves(place: Path):
    source, target = place / "source", place / "target"
    source.mkdir()
    (source / "top.txt").write_text("top")
    here = os.open(source, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    packed = Packed()
    (left_out,) = archive.pack(str(source), packed, 1 << 30).items()
    assert left_out[0].startswith("d/d/d")
    assert left_out[1] == "File name too long"
    packed.seek(0)
    target.mkdir()
    archive.unpack(packed, str(target))
    assert (target / "top.txt").read_text() == "top"
    assert (target / ("d/" * 1500)).is_dir()
