"""Trees that hostile code made, deleted from outside: few descriptors, no recursion to speak of, nothing beside them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar_kernel.removal import MOST_LEVELS, remove


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + MOST_LEVELS + 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def dig(place: Path, levels: int) -> None:
    place.mkdir()
    here = os.open(place, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        os.symlink("/etc", "link", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


@pytest.mark.usefixtures("few_descriptors")
def test_a_tree_thousands_deep_is_removed_with_few_descriptors(tmp_path: Path):
    (tmp_path / "kept").write_text("text")
    dig(tmp_path / "deep", 3000)
    dig(tmp_path / "deep" / "beside", 100)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        remove(folder, "deep")
        remove(folder, "kept")
        with pytest.raises(FileNotFoundError):
            remove(folder, "deep")
    finally:
        os.close(folder)
    assert os.listdir(tmp_path) == []
    assert os.path.isdir("/etc")


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path):
    dig(tmp_path / "tree", 2)
    (tmp_path / "link").symlink_to("tree")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        remove(folder, "link")
    finally:
        os.close(folder)
    assert os.listdir(tmp_path) == ["tree"]
