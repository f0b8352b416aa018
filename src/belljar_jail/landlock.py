"""Landlock: the second wall around files, scoped to the rights that the running kernel knows."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

from belljar_jail import linux

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
READ = EXECUTE | READ_FILE | READ_DIR
# The newest right of each ABI: refer came with 2, truncate with 3, ioctl on devices with 5.
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_MAKE_DEVICES = 1 << 6 | 1 << 11  # char and block
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2
_CREATE_VERSION, _RULE_PATH_BENEATH = 1, 1


def abi() -> int:
    """The ABI version of this kernel; 0 when it has no Landlock."""
    try:
        return linux.syscall("landlock_create_ruleset", None, ctypes.c_size_t(0), _CREATE_VERSION)
    except OSError:
        return 0


def restrict(readable: list[str], writable: list[str], files: Sequence[str] = ()) -> None:
    """Leave this thread nothing but these trees and writable files, and no signals or sockets beyond its children."""
    enforce(ruleset(readable, writable, files))


def ruleset(readable: list[str], writable: list[str], files: Sequence[str] = ()) -> int:
    """The descriptor of rules that allow these trees and writable files."""
    version = abi()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    handled = _RIGHTS_BY_ABI[min(version, 5)]
    scopes = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if version >= 6 else 0
    attributes = struct.pack("QQQ", handled, 0, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = linux.syscall("landlock_create_ruleset", ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), 0)
    _allow(rules, "/", handled & READ_DIR)  # what is there may be listed; it is the sandbox's own view
    for path in readable:
        _allow(rules, path, handled & READ)
    for path in writable:
        _allow(rules, path, handled & ~_MAKE_DEVICES)
    for path in files:
        _allow(rules, path, handled & _FILE_RIGHTS)
    return rules


def enforce(rules: int) -> None:
    """Hold this thread to rules, for good, and close them."""
    linux.syscall("landlock_restrict_self", rules, 0)
    os.close(rules)


def execute_only(paths: list[str]) -> None:
    """A further rule for this thread: of all that it may read, it may execute these files alone."""
    attributes = struct.pack("Q", EXECUTE)
    ruleset = linux.syscall("landlock_create_ruleset", ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), 0)
    for path in paths:
        _allow(ruleset, path, EXECUTE)
    linux.syscall("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    rule = struct.pack("=Qi", rights, descriptor)
    linux.syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0)
    os.close(descriptor)
