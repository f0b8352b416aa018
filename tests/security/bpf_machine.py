"""A small BPF machine: what a system-call filter answers to one call."""

from __future__ import annotations

import struct

from belljar_jail.bpf import Instruction


def verdict(code: list[Instruction], arch: int, number: int, *arguments: int) -> int:
    """The kernel's action for this call."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, arch, 0, *words)
    at = accumulator = 0
    while True:
        operation, when_true, when_false, operand = code[at]
        at += 1
        if operation == 0x20:  # load a word
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif operation == 0x54:  # and
            accumulator &= operand
        elif operation == 0x06:  # return
            return operand
        else:
            tests = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}
            at += when_true if tests[operation] else when_false
