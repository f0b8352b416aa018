"""`belljar run`: one piece of code in a fresh sandbox, with the manners of a Unix command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from belljar.surfaces.cli import foreground, inputs, outcome
from belljar.surfaces.cli.wording import one_line

if TYPE_CHECKING:
    from argparse import Namespace

    from belljar.execution import Execution
    from belljar.sandbox import Sandbox
    from belljar.surfaces.cli.screen import Screen

DEFAULT_OUT = "belljar-out"


def command(options: Namespace) -> int:
    """Run the code and return its exit code."""
    limits = inputs.limits_of(options)
    arguments = inputs.read_arguments(options.args)
    files = inputs.read_files(options.files)
    stdin = inputs.read_stdin(options.stdin, options.source, options.code)
    code = inputs.read_code(options.source, options.code)

    sandbox = inputs.open_sandbox(options, limits, files)
    try:
        show = (lambda _event: None) if options.json else _screen().show
        execution = foreground.run(sandbox, code, show, stdin=stdin, **arguments)
        if options.json:
            import json

            sys.stdout.write(json.dumps(execution.to_dict()) + "\n")
            sys.stdout.flush()
        _save(sandbox, execution, options, files)
    finally:
        sandbox.close()
    for line in outcome.remarks(execution, limits):
        _say(line)
    return outcome.exit_code(execution)


def _screen() -> Screen:
    from belljar.surfaces.cli.screen import Screen

    return Screen(sys.stdout.buffer, sys.stderr.buffer)


def _save(sandbox: Sandbox, execution: Execution, options: Namespace, uploaded: dict[str, bytes]) -> None:
    if options.out is None and (options.json or not execution.results):
        return
    from belljar.surfaces.cli.gallery import Gallery

    gallery = Gallery(Path(options.out or DEFAULT_OUT))
    taken = [file.path for file in execution.files] if options.out is not None else []
    for path in gallery.save_images(execution.results, taken):
        _say(f"saved {path}")
    if options.out is not None:
        for name, where in gallery.save_files(sandbox, execution, uploaded):
            _say(f"saved {where}" if isinstance(where, Path) else f"could not fetch {name}: {where}")


def _say(line: str) -> None:
    print(f"belljar: {one_line(line)}", file=sys.stderr)
