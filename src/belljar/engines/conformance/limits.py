"""Cases: time, memory, disk and processes end where they were set to, and the next run goes on or says why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from belljar.engines import exits
from belljar.engines.conformance.case import Case, Interrupted, Raises, Read, case, run
from belljar.engines.conformance.expect import HEADER, Expected, error, file, frame, ok
from belljar.execution import ChangedFile, Execution, Logs, Status

INVALID = Raises("InvalidRequest", ("timeout",))
RESET: dict[str, Any] = {"state": "reset", "state_reason": "Belljar's own sentence"}


def stopped(status: Status, line: int | None = None, source: str = "", stdout: str = "") -> Expected:
    """The code was interrupted, at its limit of one second or because it was asked for, at this line or in none."""
    told = exits.timed_out(1, killed=False) if status == "timeout" else exits.cancelled(killed=False)
    execution = Execution(
        status=status,
        logs=Logs([stdout]),
        exit_code=exits.TIMEOUT_EXIT if status == "timeout" else exits.CANCELLED_EXIT,
    )
    where = [HEADER, frame(line, "<module>", source)] if line else []
    traceback = "\n".join([*where, "KeyboardInterrupt"])
    return Expected(execution, (told.name, told.value, line, told.code), traceback=traceback)


def killed(stdout: str = "", files: Sequence[ChangedFile] = ()) -> Expected:
    """The code did not stop at its limit of one second, and was killed."""
    told = exits.timed_out(1, killed=True)
    code = exits.TIMEOUT_EXIT
    execution = Execution(status="timeout", logs=Logs([stdout]), exit_code=code, files=[*files], **RESET)
    return Expected(execution, (told.name, told.value, None, told.code), traceback="", echoed=False)


def crashed(value: str, exit_code: int, stdout: str = "", files: Sequence[ChangedFile] = ()) -> Expected:
    """The interpreter ended by itself."""
    execution = Execution(status="crashed", logs=Logs([stdout]), exit_code=exit_code, files=[*files], **RESET)
    return Expected(execution, ("KernelCrashed", value, None, "CRASHED"), traceback="", echoed=False)


def by_signal(name: str, number: int) -> Expected:
    """The interpreter ended by a signal."""
    return crashed(f"the sandbox's Python was ended by {name}; native code in it may be at fault", 128 + number)


def by_exit(code: int, stdout: str = "", files: Sequence[ChangedFile] = ()) -> Expected:
    """The interpreter was ended by the code."""
    return crashed(f"the code ended the sandbox's Python itself, with exit code {code}", code, stdout, files)


CASES: list[Case] = [
    case(
        "an endless loop ends at the timeout and the state is kept",
        run(
            "x = 5\nprint('so far')\nwhile True: pass", stopped("timeout", 3, "while True: pass", "so far\n"), timeout=1
        ),
        run("x", ok(text="5", value=5)),
        tags="slow",
    ),
    case(
        "the limit of the sandbox is the timeout when the run names none",
        run("import time\ntime.sleep(60)", stopped("timeout", 2, "time.sleep(60)")),
        timeout_s=1,
        tags="slow",
    ),
    case(
        "code that will not be interrupted is killed, and the next run says that its state is new",
        run(
            "import time\nx = 5\nk = open('f.txt', 'w').write('kept')\nprint('on')\n"
            "while True:\n    try: time.sleep(60)\n    except BaseException: pass",
            killed("on\n", files=[file("f.txt", 4)]),
            timeout=1,
        ),
        run("'x' in globals()", ok(text="False", value=False, **RESET)),
        Read("f.txt", b"kept"),
        tags="slow",
    ),
    case(
        "a child process that would go on is ended at the timeout",
        run(
            "import subprocess\nsubprocess.run(['sleep', '60'])",
            stopped("timeout", 2, "subprocess.run(['sleep', '60'])"),
            timeout=1,
        ),
        run("1", ok(text="1", value=1)),
        tags="slow processes",
    ),
    case(
        "an awaited sleep ends at the timeout and the loop is still good",
        run("import asyncio\nawait asyncio.sleep(60)", stopped("timeout"), timeout=1),
        run("await asyncio.sleep(0, 'on')", ok(text="'on'", value="on")),
        tags="slow",
    ),
    case(
        "a run that ends in time is not touched",
        run("import time\ntime.sleep(0.05)\n'done'", ok(text="'done'", value="done"), timeout=1),
    ),
    case(
        "a timeout out of range is refused",
        *(run("1", INVALID, timeout=bad) for bad in (0, 0.04, 301, -1, float("nan"), float("inf"), "5", True)),
    ),
    case("a fraction of a second may be part of a timeout", run("1", ok(text="1", value=1), timeout=1.5)),
    case(
        "an interrupt stops the code and keeps the state",
        Interrupted(
            "x = 7\nprint('ready')\nwhile True: pass",
            "ready",
            stopped("cancelled", 3, "while True: pass", "ready\n"),
        ),
        run("x", ok(text="7", value=7)),
    ),
    case(
        "an interrupt stops a sleep",
        Interrupted(
            "import time\nprint('ready'); time.sleep(60)",
            "ready",
            stopped("cancelled", 2, "print('ready'); time.sleep(60)", "ready\n"),
        ),
        run("1", ok(text="1", value=1)),
    ),
    case(
        "an interrupt ends the children of its own run, not those of the next",
        Interrupted(
            "import subprocess, time\nfor _ in range(40): p = subprocess.Popen(['sleep', '60'])\n"
            "print('ready'); time.sleep(60)",
            "ready",
            stopped("cancelled", 3, "print('ready'); time.sleep(60)", "ready\n"),
        ),
        run("q = subprocess.Popen(['sleep', '60'])\ntime.sleep(0.3)\nq.poll() is None", ok(text="True", value=True)),
        tags="processes",
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
            "f = open('big', 'wb', buffering=0)\nfor _ in range(40):\n    n = f.write(bytes(100_000))",
            error(
                "OSError",
                "[Errno 28] No space left on device",
                line=3,
                code="DISK_LIMIT",
                files=[file("big", 2_093_056, "application/octet-stream")],
            ),
        ),
        run(
            "import os\nf.close()\nos.remove('big')\nopen('small', 'w').write('fits')",
            ok(text="4", value=4, files=[file("small", 4, "application/octet-stream")]),
        ),
        disk_mb=2,
    ),
    case(
        "too many processes are a process error",
        run(
            "import subprocess\nps = []\nfor _ in range(40):\n    ps.append(subprocess.Popen(['sleep', '60']))",
            error("BlockingIOError", "[Errno 11] Resource temporarily unavailable", line=4, code="PROCESS_LIMIT"),
        ),
        processes=8,
        tags="processes",
    ),
    case(
        "too many threads are a process error",
        run(
            "import threading\ngo = threading.Event()\nfor _ in range(40):\n"
            "    threading.Thread(target=go.wait, daemon=True).start()",
            error("RuntimeError", "can't start new thread", line=4, code="PROCESS_LIMIT"),
        ),
        run("go.set()\n1", ok(text="1", value=1)),
        processes=8,
        tags="threads",
    ),
    case(
        "os._exit is a crash, and the next run says that its state is new",
        run("x = 1\nprint('before', flush=True)\nimport os\nos._exit(3)", by_exit(3, "before\n")),
        run("'x' in globals()", ok(text="False", value=False, **RESET)),
    ),
    case(
        "a fatal signal is a crash that names the signal",
        run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", by_signal("SIGKILL", 9)),
        run("1", ok(text="1", value=1, **RESET)),
    ),
    case(
        "a segmentation fault is a crash",
        run("import ctypes\nctypes.string_at(0)", by_signal("SIGSEGV", 11)),
        run("1", ok(text="1", value=1, **RESET)),
    ),
    case(
        "an abort is a crash",
        run("import os\nos.abort()", by_signal("SIGABRT", 6)),
        run("1", ok(text="1", value=1, **RESET)),
    ),
    case(
        "a crash keeps the files, and they are reported",
        run(
            "import os\nk = open('f.txt', 'w').write('kept')\nos._exit(1)",
            by_exit(1, files=[file("f.txt", 4)]),
        ),
        Read("f.txt", b"kept"),
    ),
    case(
        "a state that was reset is told only once",
        run("import os\nos._exit(1)", by_exit(1)),
        run("1", ok(text="1", value=1, **RESET)),
        run("2", ok(text="2", value=2)),
    ),
]
