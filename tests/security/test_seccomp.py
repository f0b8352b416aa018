"""The system-call filter, run in a small BPF machine over every call number, on both architectures."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.security import bpf_machine

from belljar_jail import linux, seccomp
from belljar_jail.bpf import ALLOW, AUDIT_ARCH, ERRNO, KILL, NOTIFY, TRACE, X32_BIT
from belljar_jail.seccomp import program
from belljar_jail.syscall_table import ALLOWED, REFUSED, SPECIAL

MACHINES = list(AUDIT_ARCH)
EVERYTHING = {**ALLOWED, **REFUSED, **SPECIAL}
HEADERS = {
    "x86_64": ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"],
    "aarch64": ["/usr/include/asm-generic/unistd.h"],
}


def evaluate(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter answers to one call."""
    return bpf_machine.verdict(program(machine), AUDIT_ARCH[machine] if arch is None else arch, number, *arguments)


def number_of(machine: str, name: str) -> int:
    number = EVERYTHING[name][MACHINES.index(machine)]
    assert number is not None
    return number


def call(machine: str, name: str, *arguments: int) -> int:
    return evaluate(machine, number_of(machine, name), *arguments)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_call_number_gets_the_verdict_of_its_table(machine: str):
    column = MACHINES.index(machine)
    expected = {numbers[column]: ALLOW for numbers in ALLOWED.values()}
    expected |= {numbers[column]: ERRNO | 1 for numbers in REFUSED.values()}
    expected |= {number_of(machine, "clone3"): ERRNO | 38, number_of(machine, "unshare"): NOTIFY}
    expected |= {number_of(machine, name): TRACE for name in seccomp.TRACED}
    ruled = {"socket": (1, 1)}  # family and type that are allowed, for the calls that look at their arguments
    for number in range(600):
        name = next((name for name, numbers in ALLOWED.items() if numbers[column] == number), "")
        verdict = evaluate(machine, number, *ruled.get(name, ()))
        assert verdict == expected.get(number, ERRNO | 38), (number, name)


def test_numbers_far_beyond_the_table_do_not_exist(machine: str):
    for number in (600, 1000, 4096, X32_BIT - 1):
        assert evaluate(machine, number) == ERRNO | 38


def test_the_x32_numbers_are_the_end(machine: str):
    for number in (X32_BIT, X32_BIT + 39, X32_BIT | 59, 0xFFFFFFFF):
        assert evaluate(machine, number) == KILL


def test_another_architecture_is_the_end(machine: str):
    foreign = [0x40000003, 0x40000028, 0, 0xFFFFFFFF, *(arch for name, arch in AUDIT_ARCH.items() if name != machine)]
    for arch in foreign:  # i386, arm and others
        for number in (0, 1, 20, 39, 59, 221):
            assert evaluate(machine, number, arch=arch) == KILL


def test_no_call_is_in_two_tables_and_no_number_has_two_names():
    assert len(EVERYTHING) == len(ALLOWED) + len(REFUSED) + len(SPECIAL)
    for column in range(len(MACHINES)):
        numbers = [row[column] for row in EVERYTHING.values() if row[column] is not None]
        assert len(numbers) == len(set(numbers))


def test_what_must_never_be_allowed_is_not():
    never = """mount umount2 pivot_root chroot setns ptrace process_vm_readv process_vm_writev bpf perf_event_open
        io_uring_setup io_uring_enter io_uring_register userfaultfd keyctl add_key request_key kexec_load init_module
        finit_module delete_module open_by_handle_at name_to_handle_at reboot swapon swapoff acct quotactl setuid setgid
        setresuid setresgid setgroups capset seccomp personality pidfd_getfd kcmp fsopen fsmount move_mount open_tree
        mount_setattr fanotify_init inotify_init inotify_init1 unshare clone3"""
    assert not [name for name in never.split() if name in ALLOWED]


@pytest.mark.parametrize("flag", [1 << bit for bit in (7, 15, 17, 25, 26, 27, 28, 29, 30)])
def test_clone_makes_no_namespace_and_no_sibling(machine: str, flag: int):
    assert call(machine, "clone", flag | 17) == ERRNO | 1
    assert call(machine, "clone", flag | 0x50F00) == ERRNO | 1
    assert call(machine, "clone", 17) == ALLOW
    assert call(machine, "clone", 0x3D0F00) == ALLOW  # how threads are made


def test_sockets_are_unix_and_internet_streams_datagrams_and_packets(machine: str):
    allowed = {(f, t) for f in range(64) for t in range(16) if call(machine, "socket", f, t) == ALLOW}
    assert allowed == {(f, t) for f in (1, 2, 10) for t in (1, 2, 5)}
    assert call(machine, "socket", 2, 1 | 0o2004000) == ALLOW  # non-blocking, close on exec
    assert call(machine, "socket", 16, 3) == ERRNO | 97
    assert call(machine, "socket", 2, 3) == ERRNO | 1
    assert call(machine, "socket", 1 << 32 | 16, 1) == ERRNO | 97, (
        "the high half does not count, for the kernel neither"
    )


def test_terminals_get_no_input_and_files_no_watchers(machine: str):
    assert call(machine, "ioctl", 0, 0x5412) == ERRNO | 1
    assert call(machine, "ioctl", 0, 0x541C) == ERRNO | 1
    assert call(machine, "ioctl", 0, 1 << 32 | 0x5412) == ERRNO | 1
    assert call(machine, "ioctl", 0, 0x5401) == ALLOW
    assert call(machine, "fcntl", 5, 1024) == ERRNO | 1
    assert call(machine, "fcntl", 5, 1026) == ERRNO | 1
    assert call(machine, "fcntl", 5, 1030) == ALLOW


def test_limits_can_be_changed_of_the_caller_alone(machine: str):
    assert call(machine, "prlimit64", 0, 7, 1, 0) == ALLOW
    assert call(machine, "prlimit64", 1, 7, 1, 0) == ERRNO | 1
    assert call(machine, "prlimit64", 1, 7, 0, 1) == ERRNO | 1


def test_no_process_answers_for_the_calls_of_a_fork_or_takes_in_its_kernel(machine: str):
    assert [call(machine, "prctl", option) for option in (22, 1 << 32 | 22, 36)] == [ERRNO | 1] * 3
    assert [call(machine, "prctl", option) for option in (1, 4, 15, 21, 37, 38)] == [ALLOW] * 6


def test_no_devices_are_made(machine: str):
    for name, at in {"mknod": 1, "mknodat": 2}.items():
        if EVERYTHING[name][MACHINES.index(machine)] is None:
            continue
        verdicts = {
            kind: call(machine, name, *[0] * at, kind | 0o666) for kind in (0, 0o010000, 0o020000, 0o060000, 0o100000)
        }
        refused = {0o020000, 0o060000}
        assert verdicts == {kind: ERRNO | 1 if kind in refused else ALLOW for kind in verdicts}


def test_the_program_is_one_that_the_kernel_takes(machine: str):
    code = program(machine)
    assert len(code) <= 4096
    for at, (operation, when_true, when_false, operand) in enumerate(code):
        assert 0 <= when_true <= 255
        assert 0 <= when_false <= 255
        assert 0 <= operand < 1 << 32
        if operation in (0x15, 0x35, 0x45):
            assert at + 1 + max(when_true, when_false) < len(code)
    assert code[-1][0] == 0x06


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_systems_headers(machine: str):
    header = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if header is None:
        pytest.skip(f"no header with the system calls of {machine}")
    rows = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", header.read_text(), re.MULTILINE)
    known = {name: int(number) for name, number in rows}
    if machine == "aarch64":  # the generic header calls these by other names
        same = {"fstatat": "newfstatat", "fadvise64": "fadvise64"}
        known = {same.get(name, name): number for name, number in known.items()}
    column = MACHINES.index(machine)
    wrong = {
        name: (numbers[column], known[name])
        for name, numbers in EVERYTHING.items()
        if name in known and numbers[column] not in (None, known[name])
    }
    assert wrong == {}
    assert len([name for name in EVERYTHING if name in known]) > 200


def test_the_filter_holds_in_a_real_process():
    """Loaded into a fork of this process, without any other wall."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b"unfinished"
        try:
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.install()
            os.getpid()
            try:
                os.setuid(os.getuid())
                said = b"setuid worked"
            except PermissionError:
                said = b"refused"
            try:
                os.chroot("/")
                said = b"chroot worked"
            except OSError as failure:  # it works for one whom the keeper traces, and for nobody else
                said += b" %d" % failure.errno
        finally:
            os.write(writer, said)
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as words:
        assert words.read() == b"refused 38"
    assert os.waitpid(pid, 0)[1] == 0
