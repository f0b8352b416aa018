"""The filters of a foreign program, run over every call number on both architectures."""

from __future__ import annotations

import pytest
from tests.security import bpf_machine

from belljar_jail import program_filter
from belljar_jail.bpf import ALLOW, AUDIT_ARCH, ERRNO, KILL, NOTIFY, X32_BIT
from belljar_jail.program_filter import STARTS, VALUES, allowed, door, program
from belljar_jail.syscall_table import ALLOWED, REFUSED, SPECIAL

MACHINES = list(AUDIT_ARCH)
KNOWN = {**ALLOWED, **REFUSED, **SPECIAL}
EPERM, ENOSYS = ERRNO | 1, ERRNO | 38
RULED = ("clone", *VALUES)
THREAD = 0x3D0F00  # how libc makes one


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def number_of(machine: str, name: str) -> int | None:
    return KNOWN[name][MACHINES.index(machine)]


def call(machine: str, name: str, *arguments: int) -> int:
    number = number_of(machine, name)
    assert number is not None
    return bpf_machine.verdict(program(machine), AUDIT_ARCH[machine], number, *arguments)


def test_every_call_number_gets_the_verdict_of_its_table(machine: str):
    expected = {number_of(machine, name): EPERM for name in KNOWN}
    expected |= {number_of(machine, name): ALLOW for name in (*allowed(), *STARTS)}
    expected |= {number_of(machine, "clone3"): ENOSYS}
    ruled = {number_of(machine, name) for name in RULED}
    for number in set(range(600)) - ruled:
        verdict = bpf_machine.verdict(program(machine), AUDIT_ARCH[machine], number)
        assert verdict == expected.get(number, ENOSYS), number


def test_everything_allowed_is_allowed_to_a_kernel_too():
    assert set(allowed()) | set(RULED) | set(STARTS) <= set(ALLOWED)
    assert len(allowed()) == len(set(allowed()))


def test_it_is_narrower_than_a_kernels_by_far():
    never = """socket connect bind listen accept sendmsg recvmsg memfd_create fork vfork kill mkdir mkdirat unlink rename
        link symlink mknod chmod chown truncate ftruncate pwrite64 setsid flock splice tee sched_setaffinity setpriority
        timer_create signalfd4 pidfd_open getxattr readahead statfs wait4 chdir umask"""
    assert [name for name in never.split() if name in (*allowed(), *RULED)] == []
    assert len(allowed()) < len(ALLOWED) / 2


def test_only_threads_are_made(machine: str):
    assert call(machine, "clone", THREAD) == ALLOW
    for flags in (17, 0, 0x100 | 17, 0x4100 | 17):  # fork, and what vfork and posix_spawn do
        assert call(machine, "clone", flags) == EPERM
    for bit in (7, 15, 17, 25, 26, 27, 28, 29, 30):
        assert call(machine, "clone", THREAD | 1 << bit) == EPERM


def test_ruled_calls_take_their_values_alone(machine: str):
    for name, (index, values) in VALUES.items():
        tried = {*values, *range(2000), 0x5412, 0x541C, 0x5423}
        taken = {value for value in tried if call(machine, name, *[0] * index, value) == ALLOW}
        assert taken == set(values), name


def test_the_door_passes_every_start_on_and_judges_nothing_else(machine: str):
    starts = {number_of(machine, name) for name in STARTS}
    for number in range(600):
        verdict = bpf_machine.verdict(door(machine), AUDIT_ARCH[machine], number)
        assert verdict == (NOTIFY if number in starts else ALLOW)


def test_other_architectures_are_the_end(machine: str):
    for number in (X32_BIT, X32_BIT | 59, 0xFFFFFFFF):
        assert bpf_machine.verdict(program(machine), AUDIT_ARCH[machine], number) == KILL
    for arch in (0x40000003, 0x40000028, 0, *(arch for name, arch in AUDIT_ARCH.items() if name != machine)):
        assert bpf_machine.verdict(program(machine), arch, 11) == KILL


def test_the_programs_are_ones_that_the_kernel_takes(machine: str):
    for code in (program(machine), door(machine)):
        assert len(code) <= 4096
        assert all(0 <= jump <= 255 for _, *jumps, _ in code for jump in jumps)
        assert code[-1][0] == 0x06
    assert program_filter.compiled()[0] != program_filter.compiled()[1]
