"""What each command accepts, and its help. argparse for its start-up time: see docs/adr/0008-argparse.md."""

from __future__ import annotations

import argparse
import os

_ENGINE_HELP = "what isolates the code: auto, or an engine that `belljar doctor` lists (default: auto)"

_DESCRIPTION = "Run any Python, under glass: a real sandbox, on your own machine."

_RUN_EPILOG = """\
examples:
  belljar run -c 'print(2 + 2)'
  belljar run analysis.py --file sales.csv --out results
  echo 'input()[::-1]' | belljar run - --stdin name.txt
  belljar run model.py --timeout 60 --memory 1024 --json

exit codes:
  the code's own      0 when it ended well, 1 after an exception, n after sys.exit(n)
  124 timeout   137 out of memory   139 or 128+signal crashed   130 interrupted
  2 wrong usage   125 Belljar itself failed
"""

_REPL_EPILOG = """\
keys:
  Enter runs complete code and otherwise continues it; Alt-Enter always runs
  Tab completes   Ctrl-C interrupts, twice kills   Ctrl-D leaves
  %help lists what else there is
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Keep the epilogs as they are written, and leave room for the option names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=_columns() - 2)


def _columns() -> int:
    """The terminal's width, without shutil: argparse asks for every option, help or not."""
    try:
        return max(40, min(120, os.get_terminal_size(1).columns))
    except OSError:
        return 80


def build() -> argparse.ArgumentParser:
    """The whole command line as one parser; the chosen command is in `command`."""
    parser = argparse.ArgumentParser(
        prog="belljar", description=_DESCRIPTION, formatter_class=_Help, allow_abbrev=False
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="belljar")

    def command(name: str, summary: str, epilog: str | None = None) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=epilog,
            formatter_class=_Help,
            allow_abbrev=False,
        )

    _add_run(command("run", "run Python code in a fresh sandbox", _RUN_EPILOG))
    _add_repl(command("repl", "type Python into a sandbox that keeps its state", _REPL_EPILOG))
    doctor = command("doctor", "check which walls this machine can hold, and say how to fix those it cannot")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    _add_packages(command("packages", "show or prepare the packages that every sandbox has"))
    _add_sandboxes(command("sandboxes", "list, show or close durable sandboxes"))
    bench = command("bench", "measure this machine against the peers (needs a source checkout)")
    bench.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…", help="passed on to the benchmarks")
    attack = command("attack", "attack a sandbox from inside and report what was contained")
    attack.add_argument("--engine", default="auto", help="the engine to attack (default: auto)")
    attack.add_argument("--json", action="store_true", help="print one JSON object")
    command("version", "print the version")
    return parser


def attach_code(argv: list[str]) -> list[str]:
    """Keep argparse from taking code, or another program's options, for options of its own."""
    if argv[:1] == ["bench"] and argv[1:2] not in (["--"], ["-h"], ["--help"]):
        return ["bench", "--", *argv[1:]]
    if argv[:1] != ["run"] or "-c" not in argv[:-1]:
        return argv
    at = argv.index("-c")
    return [*argv[:at], f"-c{argv[at + 1]}", *argv[at + 2 :]] if argv[at + 1].startswith("-") else argv


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", metavar="FILE", help="the code; - or nothing reads standard input")
    parser.add_argument("-c", dest="code", metavar="CODE", help="the code itself")
    _add_sandbox_options(parser)
    parser.add_argument("--stdin", metavar="FILE", help="what the code reads as its standard input; - passes ours on")
    parser.add_argument("--args", metavar="JSON", help="what the code finds as _args")
    parser.add_argument(
        "--out", metavar="DIR", help="put images and changed files here (images alone go to belljar-out otherwise)"
    )
    parser.add_argument("--json", action="store_true", help="print the Execution as one JSON object and nothing else")


def _add_repl(parser: argparse.ArgumentParser) -> None:
    _add_sandbox_options(parser)
    parser.add_argument("--out", metavar="DIR", help="put images here (default: belljar-out)")


def _add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", default="auto", help=_ENGINE_HELP)
    parser.add_argument(
        "--package",
        action="append",
        default=[],
        metavar="NAME",
        dest="packages",
        help="install this first, e.g. rich or 'rich>=13,<15'; repeatable",
    )
    parser.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="SRC[:DST]",
        dest="files",
        help="copy a file or folder into /workspace, as DST there; repeatable",
    )
    parser.add_argument(
        "--net",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        dest="hosts",
        help="let the code reach this host, e.g. example.org or '*.example.org:8443'; repeatable",
    )
    parser.add_argument(
        "--timeout", type=float, metavar="S", help="seconds that one run may take, 0.05 to 300 (default: 30)"
    )
    parser.add_argument("--memory", type=int, metavar="MB", help="memory that the sandbox may use (default: 512)")


def _add_packages(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    listing = actions.add_parser("list", help="print what the base environment has", formatter_class=_Help)
    listing.add_argument("--json", action="store_true", help="print one JSON array")
    sync = actions.add_parser("sync", help="download and prepare the base environment", formatter_class=_Help)
    sync.add_argument("names", nargs="*", metavar="NAME", help="packages to have ready as well, also without an index")
    for parser_of_action in (listing, sync):
        parser_of_action.add_argument("--engine", default="auto", help="the engine whose packages are meant")


def _add_sandboxes(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    listing = actions.add_parser("list", help="print which there are", formatter_class=_Help)
    listing.add_argument("--owner", metavar="NAME", help="those of one owner")
    listing.add_argument("--all", action="store_true", help="those that were closed not long ago, too")
    show = actions.add_parser("show", help="print what is known of one", formatter_class=_Help)
    show.add_argument("id", metavar="ID", help="its id, or the beginning of it")
    show.add_argument("--runs", type=int, default=10, metavar="N", help="how many of its last runs (default: 10)")
    for parser_of_action in (listing, show):
        parser_of_action.add_argument("--json", action="store_true", help="print JSON")
    closing = actions.add_parser("close", help="end some for good, live or asleep", formatter_class=_Help)
    closing.add_argument("ids", nargs="+", metavar="ID", help="an id, or the beginning of it")
    for parser_of_action in (show, closing):
        owner_help = "whose it is (default: the library, which makes what has no other owner)"
        parser_of_action.add_argument("--owner", metavar="NAME", default="", help=owner_help)
