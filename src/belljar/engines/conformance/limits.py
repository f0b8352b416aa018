"""Cases: time, memory, disk and processes end where they were set to, and the next run goes on or says why not."""

from __future__ import annotations

from typing import Any

from belljar.engines.conformance.case import Case, Interrupted, Raises, Read, case, run
from belljar.engines.conformance.expect import Expected, error, file, ok
from belljar.execution import ChangedFile, Execution, Logs

INVALID = Raises("InvalidRequest", ("timeout",))


def ended(
    status: Any,
    name: str,
    value: str,
    code: str,
    stdout: str = "",
    exit_code: int = 1,
    files: tuple[ChangedFile, ...] = (),
    **fields: Any,
) -> Expected:
    """The host ended the code, or saw it end: the error is Belljar's own sentence."""
    execution = Execution(status=status, logs=Logs([stdout]), exit_code=exit_code, files=list(files), **fields)
    return Expected(execution, (name, value, None, code), traceback="", echoed=False)


def timeout(stdout: str = "", **more: Any) -> Expected:
    """The code ran longer than one second."""
    return ended(
        "timeout", "TimeoutError", "the code ran longer than its limit of 1 second", "EXECUTION_TIMEOUT", stdout, **more
    )


CASES: list[Case] = [
    case(
        "an endless loop ends at the timeout and the state is kept",
        run("x = 5\nprint('so far')\nwhile True: pass", timeout("so far\n"), timeout=1),
        run("x", ok(text="5", value=5)),
        tags="slow",
    ),
    case(
        "the limit of the sandbox is the timeout when the run names none",
        run("import time\ntime.sleep(60)", timeout()),
        timeout_s=1,
        tags="slow",
    ),
    case(
        "code that will not be interrupted is killed, and the next run says that its state is new",
        run(
            "x = 5\nk = open('f.txt', 'w').write('kept')\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass",
            timeout(),
            timeout=1,
        ),
        run("'x' in globals()", ok(text="False", value=False, state="reset", state_reason="killed")),
        Read("f.txt", b"kept"),
        tags="slow",
    ),
    case(
        "a child process that would go on is ended at the timeout",
        run("import subprocess\nsubprocess.run(['sleep', '60'])", timeout(), timeout=1),
        run("1", ok(text="1", value=1)),
        tags="slow processes",
    ),
    case(
        "a run that ends in time is not touched",
        run("import time\ntime.sleep(0.05)\n'done'", ok(text="'done'", value="done"), timeout=1),
    ),
    case(
        "a timeout out of range is refused",
        *(run("1", INVALID, timeout=bad) for bad in (0, 0.5, 301, -1, float("nan"), float("inf"), "5", True)),
    ),
    case("a fraction of a second is a timeout too", run("1", ok(text="1", value=1), timeout=1.5)),
    case(
        "an interrupt stops the code and keeps the state",
        Interrupted(
            "x = 7\nprint('ready')\nwhile True: pass",
            "ready",
            ended("cancelled", "KeyboardInterrupt", "", "CANCELLED", "ready\n"),
        ),
        run("x", ok(text="7", value=7)),
    ),
    case(
        "an interrupt stops a sleep",
        Interrupted(
            "import time\nprint('ready')\ntime.sleep(60)",
            "ready",
            ended("cancelled", "KeyboardInterrupt", "", "CANCELLED", "ready\n"),
        ),
        run("1", ok(text="1", value=1)),
    ),
    case(
        "an allocation over the memory limit is out of memory and the state is kept",
        run("x = 1", ok()),
        run("y = bytearray(2_000_000_000)", error("MemoryError", "", code="MEMORY_ERROR", status="out_of_memory")),
        run("x", ok(text="1", value=1)),
    ),
    case(
        "memory that fills up bit by bit is out of memory",
        run(
            "x = []\nwhile True:\n    x.append(bytearray(10_000_000))",
            error("MemoryError", "", line=3, code="MEMORY_ERROR", status="out_of_memory"),
        ),
        run("del x\n'alive'", ok(text="'alive'", value="alive")),
    ),
    case(
        "a MemoryError that the code raises is out of memory too",
        run("raise MemoryError('mine')", error("MemoryError", "mine", code="MEMORY_ERROR", status="out_of_memory")),
    ),
    case(
        "memory within the limit is there", run("len(bytearray(200_000_000))", ok(text="200000000", value=200_000_000))
    ),
    case(
        "a file over the disk limit is a disk error",
        run(
            "with open('big', 'wb') as f:\n    f.write(bytes(3_000_000))",
            error(
                "OSError",
                "[Errno 28] No space left on device",
                line=2,
                code="DISK_LIMIT",
                files=[file("big", 0, "application/octet-stream")],
            ),
        ),
        disk_mb=2,
    ),
    case(
        "too many processes are a process error",
        run(
            "import subprocess, sys\nps = [subprocess.Popen(['sleep', '60']) for _ in range(40)]",
            error("BlockingIOError", "[Errno 11] Resource temporarily unavailable", line=2, code="PROCESS_LIMIT"),
        ),
        processes=8,
        tags="processes",
    ),
    case(
        "too many threads are a process error",
        run(
            "import threading\ngo = threading.Event()\nfor _ in range(40):\n    threading.Thread(target=go.wait, daemon=True).start()",
            error("RuntimeError", "can't start new thread", line=4, code="PROCESS_LIMIT"),
        ),
        run("go.set()\n1", ok(text="1", value=1)),
        processes=8,
        tags="threads",
    ),
    case(
        "os._exit is a crash, and the next run says that its state is new",
        run(
            "x = 1\nprint('before', flush=True)\nimport os\nos._exit(3)",
            ended("crashed", "Crashed", "", "CRASHED", "before\n"),
        ),
        run("'x' in globals()", ok(text="False", value=False, state="reset", state_reason="crashed")),
    ),
    case(
        "a fatal signal is a crash that names the signal",
        run(
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", ended("crashed", "Crashed", "SIGKILL", "CRASHED")
        ),
        run("1", ok(text="1", value=1, state="reset", state_reason="crashed")),
    ),
    case(
        "a segmentation fault is a crash",
        run("import ctypes\nctypes.string_at(0)", ended("crashed", "Crashed", "SIGSEGV", "CRASHED")),
        run("1", ok(text="1", value=1, state="reset", state_reason="crashed")),
    ),
    case(
        "a crash keeps the files",
        run("import os\nk = open('f.txt', 'w').write('kept')\nos._exit(1)", ended("crashed", "Crashed", "", "CRASHED")),
        Read("f.txt", b"kept"),
    ),
    case(
        "a state that was reset is told only once",
        run("import os\nos._exit(1)", ended("crashed", "Crashed", "", "CRASHED")),
        run("1", ok(text="1", value=1, state="reset", state_reason="crashed")),
        run("2", ok(text="2", value=2)),
    ),
]
