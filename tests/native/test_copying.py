"""The files of a sandbox on their way into its fork, while code in the sandbox still changes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import probe

from belljar_jail import copying


def to_link(path: Path) -> None:
    path.symlink_to("/etc")


def to_file(path: Path) -> None:
    path.write_text("another")


@pytest.mark.parametrize("before", [Path.mkdir, to_file])
@pytest.mark.parametrize("after", [to_link, to_file, Path.mkdir, os.mkfifo, lambda path: None])
def test_what_is_replaced_while_it_is_copied_costs_itself_and_is_never_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[[Path], None], after: Callable[[Path], None]
):
    source, target, genuine = tmp_path / "source", tmp_path / "target", probe.copier()
    source.mkdir()
    target.mkdir()
    (source / "kept").write_text("kept")
    before(source / "flips")

    def flip(at: int, to: int, name: str, facts: os.stat_result, depth: int) -> None:
        if name == "flips":
            (Path.rmdir if before is Path.mkdir else Path.unlink)(source / "flips")
            after(source / "flips")
        genuine(at, to, name, facts, depth)

    probe.use_copier(monkeypatch, flip)
    ends = [os.open(folder, os.O_RDONLY) for folder in (source, target)]
    try:
        copying.copy(ends[0], ends[1])
    finally:
        for end in ends:
            os.close(end)
    assert (target / "kept").read_text() == "kept"
    assert not (target / "flips").is_symlink()
    assert not list(target.glob("flips/*"))
