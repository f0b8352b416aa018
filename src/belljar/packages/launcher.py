"""Starts pip as a client that starts nothing itself, and that follows no address in a package's metadata.

Run as a program, by whichever Python has pip; it imports nothing of Belljar.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

PROCESSES = frozenset(
    ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.system",
     "pty.spawn")
)  # fmt: skip


def main() -> int:
    """Run pip with the arguments of this process."""
    sys.addaudithook(_refuse_processes)
    _refuse_addresses()
    code: int = import_module("pip._internal.cli.main").main()
    return code


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    """A source is built by a program of its own; so are repositories fetched."""
    if event in PROCESSES:
        raise PermissionError(f"nothing is started for a download: {str(arguments[:1])[:100]}")


def _refuse_addresses() -> None:
    """Wrap what turns a line of metadata into a requirement; what we ask for ourselves comes another way."""
    constructors: Any = import_module("pip._internal.req.constructors")
    failure = import_module("pip._internal.exceptions").InstallationError
    original = constructors.install_req_from_req_string

    def checked(req_string: str, *rest: Any, **more: Any) -> Any:
        made = original(req_string, *rest, **more)
        if made.link is not None or "@" in req_string.partition(";")[0]:
            raise failure(f"a package needs {req_string[:200]!r}, an address, and only names are followed")
        return made

    constructors.install_req_from_req_string = checked
    if import_module("pip._internal.cli.req_command").install_req_from_req_string is not checked:
        raise SystemExit("ERROR: this pip cannot be kept from following addresses; use another version of pip")


if __name__ == "__main__":
    sys.exit(main())
