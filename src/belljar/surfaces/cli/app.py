"""The entry point: pick the command, import it alone, and turn failures into one line and an exit code."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from belljar.surfaces.cli import parser

if TYPE_CHECKING:
    from argparse import Namespace

USAGE = 2
FAILED = 125
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = parser.attach_code(sys.argv[1:] if argv is None else argv)
    commands = parser.build()
    options = commands.parse_args(arguments)
    if options.version:
        options.command = "version"
    if options.command is None:
        commands.print_help(sys.stderr)
        return USAGE
    try:
        code = _dispatch(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left. Point stdout at nothing, so that the interpreter's own flush does not complain as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except Exception as error:
        return _explain(error)
    return code


def entry() -> NoReturn:
    """The command as a process: with its work done and told, it does not take its own modules apart, for 20 ms."""
    _replace_missing()
    code = main()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _replace_missing() -> None:
    """Have all three streams: what is said to one that was closed is dropped, and no socket of ours gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process lives


def _dispatch(options: Namespace) -> int:
    match options.command:
        case "run":
            from belljar.surfaces.cli import run

            return run.command(options)
        case "repl":
            from belljar.surfaces.cli import repl

            return repl.command(options)
        case "doctor":
            from belljar.surfaces.cli import doctor

            return doctor.command(options)
        case "packages":
            from belljar.surfaces.cli import packages

            return packages.command(options)
        case "sandboxes":
            from belljar.surfaces.cli import sandboxes

            return sandboxes.command(options)
        case "bench":
            from belljar.surfaces.cli import bench

            return bench.command(options)
        case "attack":
            from belljar.surfaces.cli import attack

            return attack.command(options)
        case _:
            from belljar import __version__

            print(f"belljar {__version__}")
            return 0


def _explain(error: Exception) -> int:
    from belljar.errors import InvalidRequest, PathRefused, SandboxError
    from belljar.surfaces.cli.wording import one_line

    if isinstance(error, (SandboxError, OSError)):
        print(f"belljar: {one_line(str(error))}", file=sys.stderr)
        return USAGE if isinstance(error, (InvalidRequest, PathRefused)) else FAILED
    import traceback

    traceback.print_exception(error)
    print("belljar: this is a mistake in Belljar itself, not in your code; please report it", file=sys.stderr)
    return FAILED
