"""Cases: `sys.exit` and its relatives end the code, never the sandbox, and the state is kept."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import Expected, ok
from belljar.execution import Execution, Logs


def left(code: int, stdout: str = "", stderr: str = "", value: str = "") -> Expected:
    """The code left with this exit code, which is not 0; no traceback is printed."""
    execution = Execution(status="error", logs=Logs([stdout], [stderr]), exit_code=code)
    return Expected(execution, ("SystemExit", value or str(code), 1, "RUNTIME_ERROR"), echoed=False)


CASES: list[Case] = [
    case("sys.exit(0) is fine and keeps what was printed", run("import sys\nprint('done')\nsys.exit(0)", ok("done\n"))),
    case("sys.exit() is fine", run("import sys; sys.exit()", ok())),
    case("sys.exit(None) is fine", run("import sys; sys.exit(None)", ok())),
    case("exit and quit work like sys.exit", run("exit(0)", ok()), run("quit()", ok())),
    case(
        "sys.exit(1) is an error with exit code 1, and keeps what was printed",
        run(
            "print('partial'); import sys; sys.exit(1)",
            left(1, "partial\n"),
        ),
    ),
    case("sys.exit(3) is an error with exit code 3", run("import sys; sys.exit(3)", left(3))),
    case(
        "sys.exit with a text prints it to standard error and gives exit code 1",
        run(
            "import sys; sys.exit('it broke')",
            left(1, stderr="it broke\n", value="it broke"),
        ),
    ),
    case("raise SystemExit(4) is an exit with code 4", run("raise SystemExit(4)", left(4))),
    case("sys.exit keeps the state", run("x = 5; import sys; sys.exit(2)", left(2)), run("x", ok(text="5", value=5))),
    case("code after sys.exit does not run", run("import sys; sys.exit(0)\nprint('never')", ok())),
    case(
        "sys.exit can be caught",
        run(
            "import sys\ntry:\n    sys.exit(9)\nexcept SystemExit as e:\n    print('caught', e.code)",
            ok("caught 9\n"),
        ),
    ),
    case(
        "sys.exit in a function runs the finally blocks",
        run(
            "import sys\ndef f():\n    try:\n        sys.exit(0)\n    finally:\n        print('cleaned')\nf()",
            ok("cleaned\n"),
        ),
    ),
]
