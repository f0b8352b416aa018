"""Which error code an exception has. Decides by real classes only, never by what an object claims."""

from __future__ import annotations

import errno

from belljar_kernel.slots import is_a, slot_of


def code_of(error: BaseException, compiling: bool, interrupted: bool, line: str) -> str:
    """The code. `line` is the source line that raised, which tells a failed fork from a socket that has no data."""
    if compiling and not is_a(error, MemoryError):
        return "PYTHON_SYNTAX_ERROR"
    if interrupted and is_a(error, KeyboardInterrupt):
        return "CANCELLED"
    if is_a(error, ModuleNotFoundError):
        return "MODULE_NOT_FOUND"
    if is_a(error, ImportError):
        return "IMPORT_ERROR"
    if is_a(error, MemoryError):
        return "MEMORY_ERROR"
    if is_a(error, OSError):
        return _os_code(slot_of(error, OSError, "errno"), line)
    if is_a(error, RuntimeError) and _only_text(error) == "can't start new thread":
        return "PROCESS_LIMIT"
    return "RUNTIME_ERROR"


def _only_text(error: BaseException) -> str | None:
    args = slot_of(error, BaseException, "args")
    return args[0] if len(args) == 1 and type(args[0]) is str else None


def _os_code(number: object, line: str) -> str:
    if type(number) is not int:
        return "RUNTIME_ERROR"
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "DISK_LIMIT"
    if number == errno.ENOMEM:
        return "MEMORY_ERROR"
    if number == errno.EAGAIN and ("fork" in line or "spawn" in line):
        return "PROCESS_LIMIT"
    return "RUNTIME_ERROR"
