"""The assembler of system-call filters: small pieces of BPF, and how a whole filter is loaded. It decides nothing."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable

from belljar_jail import linux

ALLOW, KILL, NOTIFY, TRACE, ERRNO = 0x7FFF0000, 0x80000000, 0x7FC00000, 0x7FF00000, 0x00050000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000

# Offsets in struct seccomp_data; the argument words are little-endian, low half first.
NUMBER, ARCH, ARGS = 0, 4, 16
LOAD, AND, JEQ, JGE, JSET, RET = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06

SECCOMP_SET_MODE_FILTER, FLAG_NEW_LISTENER = 1, 8

Instruction = tuple[int, int, int, int]
Body = list[Instruction]


def assemble(code: Body) -> bytes:
    """A filter as the kernel reads it."""
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def load(code: bytes, flags: int = FLAG_NEW_LISTENER) -> int:
    """Load a filter into this thread, for good, and return the descriptor that hears of what it notifies."""
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    return linux.syscall("seccomp", SECCOMP_SET_MODE_FILTER, flags, ctypes.c_char_p(header))


def prologue(machine: str) -> Body:
    """A call of another architecture, or of x32, is the end; then the number is at hand."""
    return [
        (LOAD, 0, 0, ARCH),
        (JEQ, 1, 0, AUDIT_ARCH[machine]),
        (RET, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (JGE, 0, 1, X32_BIT),
        (RET, 0, 0, KILL),
    ]


def decide(rules: Iterable[tuple[int | None, Body]], otherwise: Body) -> Body:
    """Run the body, which always returns, of a call's first rule. A call that this machine does not have has no number.

    By halving: the kernel tries a filter for every number when it is loaded, and a long list takes it 0.2 ms more.
    """
    bodies: dict[int, Body] = {}
    for number, body in rules:
        if number is not None:
            bodies.setdefault(number, body)
    stretches: list[tuple[int, Body]] = []  # the first of numbers that have the same body
    for number in range(max(bodies, default=-1) + 2):
        body = bodies.get(number, otherwise)
        if not stretches or stretches[-1][1] != body:
            stretches.append((number, body))
    return _halved(stretches)


def _halved(stretches: list[tuple[int, Body]]) -> Body:
    if len(stretches) == 1:
        return stretches[0][1]
    middle = len(stretches) // 2
    lower, upper = _halved(stretches[:middle]), _halved(stretches[middle:])
    first = stretches[middle][0]
    return [(JGE, len(lower), 0, first), *lower, *upper]  # what does not fit into its byte cannot be assembled


def always(verdict: int) -> Body:
    return [(RET, 0, 0, verdict)]


def argument(index: int) -> Instruction:
    return (LOAD, 0, 0, ARGS + 8 * index)


def refuse_bits(index: int, bits: int, errno: int) -> Body:
    return [argument(index), (JSET, 0, 1, bits), (RET, 0, 0, ERRNO | errno), (RET, 0, 0, ALLOW)]


def refuse_values(index: int, values: tuple[int, ...], errno: int) -> Body:
    tests = [(JEQ, len(values) - 1 - at, 1 if at == len(values) - 1 else 0, v) for at, v in enumerate(values)]
    return [argument(index), *tests, (RET, 0, 0, ERRNO | errno), (RET, 0, 0, ALLOW)]


def allow_values(index: int, values: tuple[int, ...], errno: int) -> Body:
    """The opposite: these values of an argument and no others."""
    tests = [(JEQ, len(values) - at, 0, v) for at, v in enumerate(values)]
    return [argument(index), *tests, (RET, 0, 0, ERRNO | errno), (RET, 0, 0, ALLOW)]
