"""Makes another process of ours call the system, one call at a time, and lets it do nothing else meanwhile.

For x86_64. What the process has in memory is not trusted: each call is compared when it begins, and one that was not
ordered ends the process before it is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator

from belljar_jail import linux

SUPPORTED = linux.MACHINE == "x86_64"

_SEIZE, _INTERRUPT, _SYSCALL, _DETACH, _GETREGS, _SETREGS = 0x4206, 0x4207, 24, 17, 12, 13
_PEEK, _POKE, _EVENT_MESSAGE = 2, 5, 0x4201
_OPTIONS = 1 | 1 << 1 | 1 << 7 | 1 << 20  # tell calls from signals, forks, filtered calls; end it if we end
_CALL, _EVENT_FORK, _EVENT_SECCOMP, _EVENT_STOP = signal.SIGTRAP | 0x80, 1, 7, 128
_ALL_KINDS = 0x40000000  # __WALL
_SYSCALL_BYTES = b"\x0f\x05"
_REGISTERS = struct.Struct("27Q")
_RAX, _ORIGINAL, _RIP = 10, 15, 16
_ARGUMENTS = (14, 13, 12, 7, 9, 8)  # rdi rsi rdx r10 r8 r9
_NONE = (1 << 64) - 1
LONGEST_S = 5.0
CHILD = {signal.SIGCHLD}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Trace in here: what becomes of children waits to be asked for."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, CHILD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Tracee:
    """A process that is stopped, and goes on when and as we say."""

    def __init__(self, pid: int, registers: list[int], deadline: float) -> None:
        self.pid = pid
        self.deadline = deadline
        self._start = registers

    @classmethod
    def seize(cls, pid: int) -> Tracee:
        """Stop a process that waits in a system call.

        Raises:
            OSError: when it cannot be had, or does not stop; it is ended then.
        """
        _ptrace("seize", _SEIZE, pid, 0, _OPTIONS)
        tracee = cls(pid, [], time.monotonic() + LONGEST_S)
        try:
            _ptrace("interrupt", _INTERRUPT, pid, 0, 0)
            if tracee._wait() >> 8 != signal.SIGTRAP | _EVENT_STOP << 8:
                raise OSError("the process did not stop where it was asked to")
            tracee._start = tracee._registers()
            word = _peek(pid, tracee._start[_RIP] - len(_SYSCALL_BYTES))
            if word[: len(_SYSCALL_BYTES)] != _SYSCALL_BYTES:
                raise OSError("the process was not in a system call")
        except OSError:
            tracee.end()
            raise
        return tracee

    def call(self, number: int, *arguments: int, meanwhile: Callable[[], None] | None = None) -> int:
        """Have it make one call, and nothing else; `meanwhile` is run while the call is on its way.

        Raises:
            OSError: when the call fails, or the process does anything else.
        """
        self._begin(number, arguments)
        if meanwhile is not None:
            meanwhile()
        status = self._wait()
        while status >> 16 in (_EVENT_SECCOMP, _EVENT_FORK):
            if status >> 16 == _EVENT_FORK:
                self._forked = _event_message(self.pid)
            status = self._resume()
        if os.WSTOPSIG(status) != _CALL:
            raise OSError("the process was disturbed")
        result = ctypes.c_long(self._registers()[_RAX]).value
        if result < 0:
            raise OSError(-result, f"call {number}: {os.strerror(-result)}")
        return result

    def clone(self, number: int, *arguments: int) -> Tracee:
        """Have it fork, and return the child, stopped as its parent was; `clone` with flags for a mere fork."""
        self._forked = 0
        self.call(number, *arguments)
        child = Tracee(self._forked, self._start, self.deadline)
        if child._wait() >> 16 != _EVENT_STOP:
            child.end()
            raise OSError("the fork did not stop at its start")
        return child

    def put(self, data: bytes, address: int) -> int:
        """Write into its memory; the address."""
        for at in range(0, len(data), 8):
            word = struct.unpack("Q", data[at : at + 8].ljust(8, b"\0"))[0]
            _ptrace("poke", _POKE, self.pid, address + at, word)
        return address

    def release(self) -> None:
        """Let it go on, as if the call in which it was stopped had returned 0."""
        registers = list(self._start)
        registers[_RAX], registers[_ORIGINAL] = 0, _NONE
        self._set_registers(registers)
        _ptrace("detach", _DETACH, self.pid, 0, 0)

    def end(self) -> None:
        """SIGKILL, which needs no leave."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _begin(self, number: int, arguments: tuple[int, ...]) -> None:
        wanted = list(self._start)
        wanted[_RAX], wanted[_ORIGINAL], wanted[_RIP] = number, _NONE, self._start[_RIP] - len(_SYSCALL_BYTES)
        for register, value in zip(_ARGUMENTS, arguments, strict=False):
            wanted[register] = value & _NONE
        self._set_registers(wanted)
        if os.WSTOPSIG(self._resume()) != _CALL:
            raise OSError("the process was disturbed")
        found = self._registers()
        if found[_ORIGINAL] != number or any(found[at] != wanted[at] for at in _ARGUMENTS):
            raise OSError("the process made a call that was not ordered")
        _ptrace("resume", _SYSCALL, self.pid, 0, 0)

    def _resume(self) -> int:
        _ptrace("resume", _SYSCALL, self.pid, 0, 0)
        return self._wait()

    def _wait(self) -> int:
        """Its next stop.

        Raises:
            OSError: when it ended, or does not stop in time.
        """
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG | _ALL_KINDS)
            if pid:
                if not os.WIFSTOPPED(status):
                    raise OSError("the process ended")
                return status
            if (left := self.deadline - time.monotonic()) <= 0:
                raise OSError("the process does not stop")
            signal.sigtimedwait(CHILD, left)  # each stop is told by a signal, too

    def _registers(self) -> list[int]:
        buffer = ctypes.create_string_buffer(_REGISTERS.size)
        _ptrace("getregs", _GETREGS, self.pid, 0, ctypes.addressof(buffer))
        return list(_REGISTERS.unpack(buffer.raw))

    def _set_registers(self, registers: list[int]) -> None:
        buffer = ctypes.create_string_buffer(_REGISTERS.pack(*registers), _REGISTERS.size)
        _ptrace("setregs", _SETREGS, self.pid, 0, ctypes.addressof(buffer))


def _peek(pid: int, address: int) -> bytes:
    return struct.pack("q", _ptrace("peek", _PEEK, pid, address, 0))


def _event_message(pid: int) -> int:
    message = ctypes.c_ulong()
    _ptrace("event", _EVENT_MESSAGE, pid, 0, ctypes.addressof(message))
    return int(message.value)


def _ptrace(what: str, request: int, pid: int, address: int, data: int) -> int:
    ctypes.set_errno(0)
    result = int(_libc.ptrace(request, pid, address, data))
    if result == -1 and (number := ctypes.get_errno()):
        raise OSError(number, f"ptrace {what}: {os.strerror(number)}")
    return result
