"""Whatever a confined program's own permissions are worth: arbitrary native code in its place finds every way shut."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.native import lab

from belljar.engines.base import Exit

ATTACKS = Path(__file__).with_name("native_code.py").read_text()

FEWER_WALLS = """
import errno, json, os, socket, sys
def tried(act, *arguments):
    try:
        act(*arguments)
    except OSError as failure:
        return errno.errorcode[failure.errno]
    return "done"
def connect(address):
    with socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX) as end: end.connect(address)
canary, port, abstract = json.loads(sys.stdin.readline())
def execute(path): os.execve(path, [path], {})
print(json.dumps({
    "read": tried(os.open, canary, os.O_RDONLY), "changed": tried(os.open, "/runtime/main.py", os.O_RDWR),
    "made": [tried(os.open, f"{folder}/new", os.O_CREAT | os.O_WRONLY) for folder in ("", "/runtime", "/dev", "/proc")],
    "executed": tried(execute, "/runtime/main.py"), "shell": tried(execute, "/bin/sh"),
    "connected": [tried(connect, ("127.0.0.1", port)), tried(connect, abstract)],
    "killed": tried(os.kill, 1, 9), "uid": os.getuid(),
}))
"""


@pytest.fixture(scope="module")
def findings(native: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What native code found out, once for all tests here."""
    return lab.said(lab.python(tmp_path_factory.mktemp("attack"), ATTACKS))


def test_no_call_that_leads_out_is_answered(findings: Any):
    calls = findings["calls"]
    assert len(calls) > 60
    assert {name: answer for name, answer in calls.items() if answer not in ("EPERM", "ENOSYS")} == {}


def test_nothing_else_is_ever_executed(findings: Any):
    assert len(findings["executed"]) > 3
    assert set(findings["executed"]) == {"ENOSYS"}
    assert findings["calls"]["execveat"] == "ENOSYS"


def test_no_child_process_is_made(findings: Any):
    assert set(findings["clone flags"].values()) == {"EPERM"}


def test_only_three_descriptors_are_open(findings: Any):
    assert findings["descriptors"] == [0, 1, 2]


def test_nothing_can_be_written(findings: Any):
    assert findings["written"] == []


def test_no_memory_of_any_process_and_no_device_is_readable(findings: Any):
    assert findings["readable beyond"] == []


def test_a_lock_is_granted_and_does_not_exist(findings: Any):
    assert findings["write lock of what can only be read"] == 0  # Linux itself would say EBADF


def test_leases_pipe_sizes_and_power_are_refused(findings: Any):
    assert set(findings["fcntl"].values()) == {"EPERM"}
    assert set(findings["prctl"].values()) == {"EPERM"}
    assert set(findings["ioctl"].values()) == {"EPERM"}
    assert findings["limits"] == ["EPERM", "EPERM"]


def test_the_keeper_gets_no_signal(findings: Any):
    assert set(findings["signals"]) <= {"EPERM", "ESRCH"}


def test_the_keeper_outlives_what_it_is_sent_and_still_ends_the_program(native: None, tmp_path: Path):
    script = """
import ctypes, os, time
libc = ctypes.CDLL(None)
number = 234 if os.uname().machine == "x86_64" else 131
for signal in range(1, 65): libc.syscall(ctypes.c_long(number), 1, 1, signal)
print("on", flush=True)
while True: time.sleep(1)
"""

    async def see() -> Exit:
        async with lab.confined(lab.python(tmp_path, script)) as program, asyncio.timeout(lab.PATIENCE_S):
            assert await lab.some(program.stdout) == b"on\n"
            await program.kill()
            return await program.exit

    assert asyncio.run(see()) == Exit(signal=signal.SIGKILL)


def test_code_that_ends_itself_is_told_as_it_was(native: None, tmp_path: Path):
    assert lab.outcome(lab.python(tmp_path, "import os; os._exit(7)"))[2] == Exit(code=7)
    assert lab.outcome(lab.python(tmp_path, "import os; os.abort()"))[2] == Exit(signal=signal.SIGABRT)


def test_a_call_of_another_architecture_is_the_end(native: None, tmp_path: Path):
    if os.uname().machine != "x86_64":
        pytest.skip("x32 is an ABI of x86_64")
    script = "import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39)); print('alive')"
    out, _, end = lab.outcome(lab.python(tmp_path, script))
    assert (out, end) == ("", Exit(signal=signal.SIGSYS))


def test_two_programs_of_one_jail_share_no_user_and_see_no_trace_of_each_other(native: None, tmp_path: Path):
    async def see() -> tuple[set[str], set[str]]:
        program = lab.python(tmp_path, "import time; print(1, flush=True); time.sleep(60)")
        async with lab.engine() as engine:
            both = [await engine.confine(program, lab.spec()) for _ in range(2)]
            for one in both:
                await lab.some(one.stdout)
            folders = [Path(f"/proc/{lab.pid(one)}") for one in both]
            users = {(folder / "status").read_text().partition("Uid:")[2].split()[0] for folder in folders}
            spaces = {os.readlink(folder / "ns/pid") for folder in folders}
            for one in both:
                await one.close()
            return users, spaces

    users, spaces = asyncio.run(see())
    assert (len(users), len(spaces)) == (2 if os.getuid() == 0 else 1, 2)


@pytest.mark.parametrize("missing", ["seccomp", "landlock"])
def test_with_one_wall_gone_the_others_hold(native: None, tmp_path: Path, missing: str):
    (tmp_path / "canary").write_text("canary")
    abstract = f"\0canary-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(abstract)
        unix.listen()
        program = lab.python(tmp_path, FEWER_WALLS)
        (tmp_path / "shown/main.py").chmod(0o755)
        given = json.dumps([str(tmp_path / "canary"), tcp.getsockname()[1], abstract]).encode() + b"\n"
        out, err, end = lab.outcome(program, given, without=(missing,))
    filtered = missing != "seccomp"
    assert (err, end) == ("", Exit(code=0))
    assert json.loads(out) == {
        "read": "ENOENT", "changed": "EROFS", "made": ["EROFS"] * 4,
        "executed": "ENOSYS" if filtered else "EACCES", "shell": "ENOSYS" if filtered else "ENOENT",
        "connected": ["EPERM" if filtered else "ECONNREFUSED"] * 2, "killed": "EPERM", "uid": 1000,
    }  # fmt: skip
