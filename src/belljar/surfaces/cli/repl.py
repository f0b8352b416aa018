"""`belljar repl`: a sandbox to type into. On a pipe it reads cells and needs no terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from belljar.errors import SandboxClosed, SandboxError
from belljar.surfaces.cli import cells, foreground, inputs, outcome
from belljar.surfaces.cli.gallery import Gallery
from belljar.surfaces.cli.run import DEFAULT_OUT
from belljar.surfaces.cli.screen import Screen
from belljar.surfaces.cli.wording import one_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from belljar.limits import Limits
    from belljar.sandbox import Sandbox

_HELP = """\
%help    this list
%vars    the names in the sandbox
%files   the files in its workspace
%reset   forget every name and start afresh; the files stay
Ctrl-C interrupts the code, twice kills it; Ctrl-D leaves
"""


def command(options: Namespace) -> int:
    """Read, run and show until the input ends."""
    limits = inputs.limits_of(options)
    files = inputs.read_files(options.files)
    sandbox = inputs.open_sandbox(options, limits, files)
    try:
        session = Session(sandbox, limits, Path(options.out or DEFAULT_OUT))
        session.greet()
        if sys.stdin.isatty() and sys.stdout.isatty():
            from belljar.surfaces.cli.prompt import read_cells

            session.follow(read_cells(sandbox))
        else:
            session.follow(cells.split(sys.stdin))
    finally:
        sandbox.close()
    return 0


class Session:
    """One sitting with one sandbox."""

    def __init__(self, sandbox: Sandbox, limits: Limits, out: Path) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._gallery = Gallery(out)
        self._paint = None
        if sys.stderr.isatty():
            from belljar.surfaces.cli.colours import paint_error

            self._paint = paint_error

    def greet(self) -> None:
        """Say what this is and what bounds it."""
        limits = self._limits
        _say(
            f"Python in a sandbox: {self._sandbox.engine} engine, {limits.timeout_s:g} s per run,"
            f" {limits.memory_mb} MB; %help for help, Ctrl-D to leave"
        )

    def follow(self, source: Iterable[str]) -> None:
        """Run each cell; what goes wrong with one is told, and does not end the sitting."""
        for cell in source:
            try:
                self._command(cell.strip()) if cell.lstrip().startswith("%") else self._run(cell)
            except KeyboardInterrupt:
                _say("interrupted")
            except SandboxClosed:
                raise
            except (SandboxError, OSError) as error:
                _say(str(error))

    def _run(self, cell: str) -> None:
        screen = Screen(sys.stdout.buffer, sys.stderr.buffer, self._paint)
        try:
            execution = foreground.run(self._sandbox, cell, screen.show)
        except KeyboardInterrupt:
            self._sandbox.reset()
            _say("killed; the sandbox starts afresh, and the files stay")
            return
        screen.end_line()
        for path in self._gallery.save_images(execution.results):
            _say(f"saved {path}")
        for line in outcome.remarks(execution, self._limits):
            _say(line)
        told = execution.error.value if execution.error else None
        if execution.state != "kept" and execution.state_reason != told:
            _say(f"state {execution.state}: {execution.state_reason}")

    def _command(self, line: str) -> None:
        match line:
            case "%help":
                print(_HELP, end="")
            case "%reset":
                self._sandbox.reset()
                _say("reset")
            case "%vars":
                variables = self._sandbox.variables()
                _table([(v.name, v.type, _size(v.shape, v.size), v.preview or "") for v in variables])
            case "%files":
                _table([(e.path, e.type, f"{e.size:,} bytes") for e in self._sandbox.files.list()])
            case _:
                _say(f"there is no {line.split()[0]}; %help lists what there is")
        sys.stdout.flush()


def _size(shape: list[int] | None, size: int | None) -> str:
    if shape is not None:
        return " × ".join(map(str, shape))
    return "" if size is None else str(size)


def _table(rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as they must be; the last one is cut where the terminal ends."""
    if not rows:
        print("nothing yet")
        return
    import shutil

    clean = [[one_line(cell) for cell in row] for row in rows]
    widths = [min(40, max(len(row[i]) for row in clean)) for i in range(len(clean[0]))]
    columns = shutil.get_terminal_size().columns
    for row in clean:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        print(line if len(line) <= columns else line[: columns - 1] + "…")


def _say(line: str) -> None:
    print(f"belljar: {one_line(line)}", file=sys.stderr, flush=True)
