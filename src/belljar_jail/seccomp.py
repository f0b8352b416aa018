"""The system-call filter: an allow-list compiled to BPF and loaded once. Nothing here decides policy at run time.

`unshare` alone is passed to the keeper (user notification), which refuses it: the door for a live fork, still shut.
"""

from __future__ import annotations

import ctypes
import functools
import socket
import struct
from collections.abc import Iterable

from belljar_jail import linux
from belljar_jail.syscall_table import ALLOWED, REFUSED, SPECIAL

ALLOW, KILL, NOTIFY, ERRNO = 0x7FFF0000, 0x80000000, 0x7FC00000, 0x00050000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000
NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
    | 0x80  # CLONE_NEWTIME
)
CLONE_PARENT = (
    0x8000  # would make children of the zygote, whose ends it would report under numbers that others get next
)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
F_SETLEASE, F_NOTIFY = 1024, 1026  # like inotify, they would tell what the host does with files that are shown inside
S_IFMT, S_IFCHR, S_IFBLK = 0o170000, 0o020000, 0o060000

# Offsets in struct seccomp_data; the argument words are little-endian, low half first.
_NUMBER, _ARCH, _ARGS = 0, 4, 16
_LOAD, _AND, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06

SECCOMP_SET_MODE_FILTER, FLAG_NEW_LISTENER = 1, 8

Instruction = tuple[int, int, int, int]


def install() -> int:
    """Load the filter into this thread, for good, and return the descriptor that hears of `unshare`."""
    code = compiled()
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    return linux.syscall("seccomp", SECCOMP_SET_MODE_FILTER, FLAG_NEW_LISTENER, ctypes.c_char_p(header))


@functools.cache
def compiled() -> bytes:
    """The filter for this machine; made once, before there is anything to filter."""
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program(linux.MACHINE))


def program(machine: str) -> list[Instruction]:
    """The whole filter for one architecture."""
    column = list(AUDIT_ARCH).index(machine)
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, AUDIT_ARCH[machine]),
        (_RET, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JGE, 0, 1, X32_BIT),
        (_RET, 0, 0, KILL),
    ]
    code += _when(SPECIAL["clone3"][column], [(_RET, 0, 0, ERRNO | ENOSYS)])  # its flags are out of reach: use clone
    code += _when(SPECIAL["unshare"][column], [(_RET, 0, 0, NOTIFY)])
    code += _when(ALLOWED["clone"][column], _refuse_bits(0, NAMESPACES | CLONE_PARENT, EPERM))
    code += _when(ALLOWED["socket"][column], _socket_rules())
    code += _when(ALLOWED["ioctl"][column], _refuse_values(1, (TIOCSTI, TIOCLINUX), EPERM))
    code += _when(ALLOWED["fcntl"][column], _refuse_values(1, (F_SETLEASE, F_NOTIFY), EPERM))
    code += _when(ALLOWED["prlimit64"][column], _refuse_others())
    code += _when(ALLOWED["mknod"][column], _refuse_devices(1))
    code += _when(ALLOWED["mknodat"][column], _refuse_devices(2))
    ruled = {"clone", "socket", "ioctl", "fcntl", "prlimit64", "mknod", "mknodat"}
    code += _each((numbers[column] for name, numbers in ALLOWED.items() if name not in ruled), ALLOW)
    code += _each((numbers[column] for numbers in REFUSED.values()), ERRNO | EPERM)
    return [*code, (_RET, 0, 0, ERRNO | ENOSYS)]


def _when(number: int | None, body: list[Instruction]) -> list[Instruction]:
    """Run `body`, which always returns, for one system call."""
    return [] if number is None else [(_JEQ, 0, len(body), number), *body]


def _each(numbers: Iterable[int | None], verdict: int) -> list[Instruction]:
    """One verdict for many calls, in blocks short enough for a BPF jump."""
    known = sorted(number for number in numbers if number is not None)
    code: list[Instruction] = []
    for start in range(0, len(known), 100):
        block = known[start : start + 100]
        for index, number in enumerate(block):
            last = index == len(block) - 1
            code.append((_JEQ, len(block) - 1 - index, 1 if last else 0, number))
        code.append((_RET, 0, 0, verdict))
    return code


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGS + 8 * index)


def _refuse_bits(index: int, bits: int, errno: int) -> list[Instruction]:
    return [_argument(index), (_JSET, 0, 1, bits), (_RET, 0, 0, ERRNO | errno), (_RET, 0, 0, ALLOW)]


def _refuse_values(index: int, values: tuple[int, ...], errno: int) -> list[Instruction]:
    tests = [(_JEQ, len(values) - 1 - at, 1 if at == len(values) - 1 else 0, v) for at, v in enumerate(values)]
    return [_argument(index), *tests, (_RET, 0, 0, ERRNO | errno), (_RET, 0, 0, ALLOW)]


def _refuse_others() -> list[Instruction]:
    """Limits of the caller alone: the keeper has the same user id, and could be starved of descriptors or time."""
    return [_argument(0), (_JEQ, 0, 1, 0), (_RET, 0, 0, ALLOW), (_RET, 0, 0, ERRNO | EPERM)]


def _refuse_devices(index: int) -> list[Instruction]:
    mask: list[Instruction] = [_argument(index), (_AND, 0, 0, S_IFMT)]
    return mask + _refuse_values(index, (S_IFCHR, S_IFBLK), EPERM)[1:]


def _socket_rules() -> list[Instruction]:
    """Unix, IPv4 and IPv6; streams, datagrams and sequenced packets."""
    families = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
    return [
        _argument(0),
        (_JEQ, 3, 0, int(families[0])),
        (_JEQ, 2, 0, int(families[1])),
        (_JEQ, 1, 0, int(families[2])),
        (_RET, 0, 0, ERRNO | EAFNOSUPPORT),
        _argument(1),
        (_AND, 0, 0, 0xF),
        (_JEQ, 2, 0, int(socket.SOCK_STREAM)),
        (_JEQ, 1, 0, int(socket.SOCK_DGRAM)),
        (_JEQ, 0, 1, int(socket.SOCK_SEQPACKET)),
        (_RET, 0, 0, ALLOW),
        (_RET, 0, 0, ERRNO | EPERM),
    ]
