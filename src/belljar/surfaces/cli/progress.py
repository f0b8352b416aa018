"""Long work, shown on standard error: a bar on a terminal, a plain line per stage elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from belljar.surfaces.cli.wording import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[str, float | None], None]


@contextmanager
def progress() -> Iterator[Report]:
    """A callback that takes the stage's name and how much of it is done, from 0 to 1, or None when unknown."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(stage: str, fraction: float | None) -> None:
            total = None if fraction is None else 1.0
            bar.update(task, description=one_line(stage), total=total, completed=fraction or 0.0)

        yield report


def _lines() -> Report:
    last: str | None = None

    def report(stage: str, _fraction: float | None) -> None:
        nonlocal last
        if stage != last:
            print(f"belljar: {one_line(stage)}", file=sys.stderr, flush=True)
            last = stage

    return report
