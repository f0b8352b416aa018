"""The door of a live fork, from inside: shut to all but one process at a time, and behind it the same walls."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from belljar import Execution, Sandbox, SandboxError
from belljar.engines.native.forking import is_shared

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can give forks user ids of their own")

CALLS = """
import ctypes, os, json, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return result if result >= 0 else -ctypes.get_errno()
def tried(act, *arguments):
    try:
        return act(*arguments) or "done"
    except OSError as failure:
        return failure.errno
"""
FACTS = """
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
facts = {name: status[name] for name in status if name[:3] in ("Cap", "NoN", "Sec")}
facts |= {
    "door": call(113, -1, 1001), "setns": call(308, 0, 0), "capset": call(126, 0, 0), "chroot": call(161, b"/"),
    "unshare": call(272, 0), "unshare user": call(272, 1 << 28), "mount": call(165, 0, 0, 0, 0, 0),
    "ptrace": call(101, 16, 1, 0, 0), "landlock": call(446, 0, 0), "netlink": call(41, 16, 3, 0),
    "usr": tried(lambda: open("/usr/x", "w")), "beneath": tried(lambda: open("/.beneath/x", "w")),
    "proc": tried(lambda: open("/proc/self/comm", "w")), "device": tried(lambda: os.mknod("d", 0o20666, 1)),
    "root": sorted(os.listdir("/")), "parent": tried(lambda: os.listdir("/proc/1/root")),
    "memory": tried(lambda: open("/proc/1/mem", "rb").read(1)), "pids": [p for p in os.listdir("/proc") if p.isdigit()],
    "host": os.uname().nodename, "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
    "limits": [__import__("resource").getrlimit(n) for n in (4, 7, 8)], "score": open("/proc/self/oom_score_adj").read(),
    "interfaces": [row.split(":")[0].strip() for row in open("/proc/net/dev").read().splitlines()[2:]],
}
facts
"""
INTRUDE = """
found = {}
for pid in [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) > 2]:
    found[pid] = [tried(lambda: open(f"/proc/{pid}/{name}", "rb").read(1)) for name in ("mem", "environ", "maps")]
    found[pid] += [tried(os.listdir, f"/proc/{pid}/{name}") for name in ("fd", "root", "cwd", "map_files")]
    found[pid] += [tried(os.kill, pid, 9), tried(os.readlink, f"/proc/{pid}/ns/user")]
tried(os.kill, -1, signal.SIGCONT)
found
"""


@pytest.fixture(scope="module")
def parent(native: None) -> Iterator[Sandbox]:
    """A sandbox that knows how to call the system."""
    with Sandbox("native") as sandbox:
        sandbox.run(CALLS)
        yield sandbox


def value(ran: Execution) -> object:
    assert ran.error is None, ran.error
    return ran.value


def test_a_fork_stands_behind_the_walls_of_any_sandbox(parent: Sandbox):
    with parent.fork()[0] as fork, fork.fork()[0] as second:
        usual = value(parent.run(FACTS))
        assert isinstance(usual, dict)
        assert usual["CapEff"] == "0000000000000000"
        assert {usual[name] for name in ("door", "setns", "capset", "chroot", "landlock")} == {-38}
        for each in (fork, second):
            found = value(each.run(FACTS))
            assert isinstance(found, dict)
            assert found["pids"][:2] == ["1", "2"]
            differing = {name: (usual[name], found[name]) for name in usual if usual[name] != found[name]}
            assert set(differing) <= {"pids"}, differing


def test_neither_a_parent_nor_a_sibling_reaches_into_a_fork(parent: Sandbox):
    with parent.fork()[0] as fork, parent.fork()[0] as sibling, fork.fork()[0] as second:
        for each in (fork, sibling, second):
            each.run("import subprocess; helper = subprocess.Popen(['sleep', '60'])\nsecret = 'kept apart'")
        seen = value(parent.run(INTRUDE))
        assert isinstance(seen, dict)
        assert len(seen) >= 9  # keeper, kernel and helper of each
        assert {json.dumps(row) for row in seen.values()} == {json.dumps([13] * 7 + [1, 13])}
        assert value(fork.run("len([p for p in os.listdir('/proc') if p.isdigit()])")) == 6  # its own and its fork's
        assert value(sibling.run("len([p for p in os.listdir('/proc') if p.isdigit()])")) == 3
        assert [value(each.run("helper.poll(), secret")) for each in (fork, sibling, second)] == [
            [None, "kept apart"]
        ] * 3


def test_what_is_not_asked_to_fork_knocks_in_vain(parent: Sandbox):
    assert value(parent.run("[call(272, 0) for _ in range(3)]")) == [-1, -1, -1]
    assert value(parent.run("x = 1; x")) == 1


def test_a_kernel_that_does_not_fork_costs_nothing_but_the_fork(parent: Sandbox):
    lie = "import belljar_kernel.forking as forking\ngenuine = forking.fork\nforking.fork = lambda kernel: ['nothing']"
    assert parent.run(lie).error is None
    with pytest.raises(SandboxError, match="did not make the fork"):
        parent.fork()
    assert parent.run("forking.fork = genuine; fork, forking._fork = forking._fork, lambda: 1 / 0").error is None
    with pytest.raises(SandboxError, match="did not make the fork: 'division by zero'"):
        parent.fork()
    assert parent.run("forking._fork = fork; kept = 1").error is None
    with parent.fork()[0] as fork:
        assert fork.run("kept").value == 1
    assert parent.run("kept").value == 1


def test_nothing_that_was_open_in_the_parent_is_open_in_the_fork(parent: Sandbox):
    leave_open = """
import belljar_kernel.forking as forking
genuine = forking._descriptors, forking._settle
forking._descriptors = lambda: ({}, [])
def settle(files, folder):
    global listed
    listed = sorted(os.listdir("/proc/self/fd")), os.readlink("/proc/self/fd/3")
    genuine[1](files, folder)
forking._settle = settle
held = os.open(".", os.O_RDONLY), os.pipe(), os.memfd_create("held")
os.dup2(held[0], 1000)
"""
    assert parent.run(leave_open).error is None
    with parent.fork()[0] as fork:
        listed = value(fork.run("listed"))
        assert isinstance(listed, list)
        assert listed[0] == ["0", "1", "2", "3"]  # of which the first is the listing itself
        assert listed[1].startswith("socket:")
        assert value(fork.run("print('on its own stream')\n1")) == 1
    restore = "forking._descriptors, forking._settle = genuine; os.close(1000); [os.close(n) for n in (held[0], *held[1], held[2])]"
    assert parent.run(restore).error is None


def test_a_knock_of_another_process_is_led_through_the_same_door_or_none(parent: Sandbox):
    """Whoever comes first is the fork: here a program of the guest's own, which finds itself behind all the walls."""
    impostor = """
import belljar_kernel.forking as forking
genuine = forking._knock
def knock():
    while call(272, 0, 0) == -1:
        pass
    libc.prctl(4, 1, 0, 0, 0)
forking._knock = knock
"""
    assert parent.run(impostor).error is None
    with parent.fork()[0] as fork:
        found = value(fork.run(FACTS))
        assert isinstance(found, dict)
        assert (found["CapEff"], found["CapPrm"], found["pids"]) == ("0" * 16, "0" * 16, ["1", "2"])
    assert parent.run("forking._knock = genuine").error is None


def test_a_fork_that_knocks_all_the_time_does_not_take_the_turn_of_the_next(parent: Sandbox):
    with parent.fork()[0] as first:
        first.run(
            "import subprocess, sys\nknock = 'import ctypes; c = ctypes.CDLL(None)\\nwhile True: c.syscall(272, 0, 0)'"
        )
        first.run("knocking = [subprocess.Popen([sys.executable, '-c', knock]) for _ in range(2)]").raise_for_status()
        first.run("import time; time.sleep(0.5)")
        for _ in range(5):
            with parent.fork()[0] as fork:
                ran = fork.run("1")
                assert (ran.state, fork.restored) == ("kept", None), ran.state_reason
        assert value(first.run("[each.poll() for each in knocking]")) == [None, None]


def test_a_fork_cannot_be_made_of_a_process_with_threads_or_of_none(parent: Sandbox):
    threaded = """
import belljar_kernel.forking as forking, threading, time
genuine = forking._knock
def knock():
    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
    genuine()
forking._knock = knock
rows = [1]
"""
    assert parent.run(threaded).error is None
    with parent.fork()[0] as fork:
        ran = fork.run("rows")
        assert (ran.value, ran.state) == ([1], "restored")
        assert "it has threads" in ran.state_reason
    assert parent.run("forking._knock = lambda: os._exit(3)").error is None
    with pytest.raises(SandboxError, match="did not make the fork"):
        parent.fork()
    assert parent.run("forking._knock = genuine; rows").value == [1]


def test_a_filter_that_says_that_the_calls_of_the_door_were_made_cannot_be_loaded(parent: Sandbox):
    """Such a fork would have no rules of its own, and the namespaces and control groups that it came through, open."""
    lie = """
import struct
code = struct.pack("HBBI", 0x20, 0, 0, 0)
for number in (436, 446):
    code += struct.pack("HBBI", 0x15, 0, 1, number) + struct.pack("HBBI", 6, 0, 0, 0x50000)
code = ctypes.create_string_buffer(code + struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), 48)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 6, ctypes.addressof(code)))
[call(157, 22, 2, ctypes.addressof(program)), call(317, 1, 0, ctypes.addressof(program))]
"""
    assert value(parent.run(lie)) == [-1, -1]


def test_the_end_of_a_fork_is_told_to_its_host_and_not_to_its_parent(parent: Sandbox):
    assert value(parent.run("call(157, 36, 1, 0, 0, 0)")) == -1  # to take in orphans
    with parent.fork()[0] as fork:
        ended = fork.run("os._exit(3)")
        assert (ended.status, ended.exit_code) == ("crashed", 3)


def test_shared_memory_that_cannot_be_written_at_the_moment_is_no_way_to_a_fork(native: None):
    hide = """
import ctypes, mmap
libc = ctypes.CDLL(None)
shared = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
libc.mprotect(ctypes.c_void_p(address), 4096, 1)
"""
    with Sandbox("native") as parent:
        assert value(parent.run(hide)) == 0
        with parent.fork()[0] as fork:
            ran = fork.run("'address' in globals()")
            assert (ran.value, ran.state) == (True, "restored")
            assert "shared between processes" in ran.state_reason


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("r--s 00000000 fe:00 33 /usr/lib/gconv/gconv-modules.cache", False),
        ("r--s 00000000 fe:00 33 /.beneath/.beneath/root/usr/lib/gconv/gconv-modules.cache", False),
        ("r--s 00000000 fe:00 33 /data/prices.csv", False),
        ("rw-s 00000000 fe:00 33 /usr/lib/gconv/gconv-modules.cache", True),
        ("r--s 00000000 00:01 33 /dev/zero (deleted)", True),
        ("---s 00000000 00:01 33 /anon_hugepage (deleted)", True),
        ("r--s 00000000 00:01 33 /memfd:x (deleted)", True),
        ("r--s 00000000 00:44 33 /.beneath/root/workspace/x", True),
        ("r--s 00000000 00:44 33 /database/x", True),
        ("r--s 00000000 00:00 0", True),
        ("rw-p 00000000 00:00 0", False),
    ],
)
def test_only_files_that_can_only_be_read_are_shared_with_a_fork(mapping: str, expected: bool):
    assert is_shared(f"7f25ad5c0000-7f25ad5c7000 {mapping}\n".encode(), ["/data"]) is expected
