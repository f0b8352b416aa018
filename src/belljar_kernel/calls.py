"""Calls out of a run: code inside asks by a name, and waits until the host has replied.

Any thread may call, and any coroutine. Replies come by one post, which one thread at a time reads for all that wait.
"""

from __future__ import annotations

import os
import time
from _thread import RLock, allocate_lock, start_new_thread
from functools import partial
from itertools import count

from belljar_kernel.interrupts import Interrupts
from belljar_kernel.pending import Pending, is_deep
from belljar_kernel.protocol import CALL_DEPTH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from belljar_kernel.pending import Post

    Send = Callable[[str, dict[str, Any]], None]

LONGEST_WAIT_S = 3600.0
LONGEST_READ_S = 1.0  # a signal handler may have called meanwhile, and taken the reply that is waited for
STUCK_S = 1.0
NO_RUN = "a call out of the sandbox can only be made while a run is on"
ENDED = "the run that made this call has ended"
TAKING = "a call cannot be made by a signal handler or a finalizer while its thread takes replies; try it again later"
FORKED = "only the process that runs the code can make calls out of the sandbox, not one that it forked"
_getpid, _monotonic = os.getpid, time.monotonic


class Calls:
    """All calls of a kernel."""

    def __init__(self, send: Send, interrupts: Interrupts) -> None:
        self.interrupts = interrupts
        self.lock = RLock()  # what ends in a garbage collection may make a call
        self.awaited = 0  # how many coroutines wait
        self._send = send
        self._post: Post | None = None
        self._pending: dict[int, Pending] = {}
        self._numbers = count(1)
        self._is_open = False
        self._is_used = False  # a call was made, or waited for, since the run began
        self._pid = _getpid()
        self._reading = RLock()  # held by the thread that reads the post; its signal handlers may call, and read, too
        self._is_taking = False  # the reader is between two states of the post
        self._bells: set[Any] = set()  # of all who wait while another reads
        self._is_read_for_coroutines = False

    def connect(self, post: Post) -> None:
        """From here on replies come by this post."""
        global _current
        self._post, _current = post, self

    def open(self) -> None:
        """A run begins. Locks are new, in case the code of the last run broke out of a wait half way."""
        self._pid = _getpid()
        if self._is_used:
            self.lock, self._reading, self._bells = RLock(), RLock(), set()
        self._is_open, self._is_used, self._is_read_for_coroutines = True, False, False
        self._is_taking = False

    def close(self) -> None:
        """The run ends, and with it every wait for a reply of its own. Threads that it left have stopped reading."""
        self._is_open = False
        if not self._is_used:
            return
        for pending in [*self._pending.values()]:
            if not pending.lasts:
                pending.settle(failure=("RuntimeError", ENDED))
                pending.leave()
        if self._post is not None and _getpid() == self._pid:
            self._ring()
            self._post.wake()
            if self._reading.acquire(timeout=STUCK_S):
                self._reading.release()
            self._post.rest()

    def ask(self, name: str, args: dict[str, Any], lasts: bool = False) -> Pending:
        """Make a call. One that `lasts` belongs to no run, and may be made while any Request is open.

        Raises:
            RuntimeError: when no run is on, or in a forked process.
            ValueError, TypeError: when the arguments are not plain JSON data.
        """
        if _getpid() != self._pid:
            raise RuntimeError(FORKED)
        self._is_used = True
        with self.interrupts:  # a call that was sent is known
            with self.lock:
                if not (self._is_open or lasts):
                    raise RuntimeError(NO_RUN)
                pending = Pending(self, next(self._numbers), lasts)
                self._pending[pending.number] = pending
            try:
                self._send("call", {"call_id": pending.number, "name": name, "args": args})
            except BaseException:
                pending.leave()
                raise
        return pending

    def forget(self, number: int) -> None:
        """Drop the reply to a call when it comes."""
        self._pending.pop(number, None)

    def deliver(self) -> bool:
        """Hand out the replies that have come; whether there were any."""
        with self.interrupts:  # a reply that was taken is not lost
            self._is_taking = True
            try:
                replies = self._post.take() if self._post is not None else []
            finally:
                self._is_taking = False
            for reply in replies:
                pending = self._pending.pop(reply.get("call_id", 0), None)
                error = reply.get("error")
                if pending is not None:
                    pending.settle(reply.get("value"), (error["name"], error["value"]) if error else None)
        return bool(replies)

    def wait_until(self, is_over: Callable[[], bool], seconds: float | None = None) -> None:
        """Block until something holds that only a reply or the end of the run can bring about.

        Raises:
            TimeoutError: when that takes longer.
            RuntimeError: in a forked process, or when this thread was interrupted while it took replies.
        """
        if _getpid() != self._pid:
            raise RuntimeError(FORKED)
        self._is_used = True
        end = None if seconds is None else _monotonic() + seconds
        bell = allocate_lock()
        bell.acquire()
        with self.interrupts:  # they may raise in the waits alone
            self._bells.add(bell)
            try:
                while not is_over():
                    left = LONGEST_WAIT_S if end is None else end - _monotonic()
                    if left <= 0:
                        raise TimeoutError("no reply came in time")
                    reading = self._reading  # the next run has another, and this reader may outlast its own
                    if reading.acquire(False):
                        try:
                            if self._is_taking:
                                raise RuntimeError(TAKING)
                            self._read(is_over, min(left, LONGEST_READ_S))
                        finally:
                            reading.release()
                            self._ring()
                    else:
                        self.interrupts.let(partial(bell.acquire, True, left))
            finally:
                self._bells.discard(bell)

    def awaiting(self) -> _Awaiting:
        """Around the wait of a coroutine: replies are read meanwhile."""
        return _Awaiting(self)

    def read_for_coroutines(self) -> None:
        """Have a thread read until the run ends, where loops cannot."""
        if self._post is None or not self._post.reads_in_thread:
            return
        with self.interrupts:
            with self.lock:
                is_read, self._is_read_for_coroutines = self._is_read_for_coroutines, True
            if not is_read:
                try:
                    reading = self._reading
                    start_new_thread(self.wait_until, (lambda: not self._is_open or self._reading is not reading,))
                except BaseException:
                    self._is_read_for_coroutines = False
                    raise

    def _read(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Take what is there, or wait for it. The caller is the one reader."""
        post = self._post
        if post is None:
            raise RuntimeError(NO_RUN)
        if is_over() or self.deliver():
            return
        post.get_ready()
        if not is_over():  # a thread that makes it so from here on wakes us
            self.interrupts.let(partial(post.wait, seconds))
            if not is_over():  # else the run may have ended, and what has come be the next Request
                self.deliver()

    def _ring(self) -> None:
        for bell in [*self._bells]:
            try:
                bell.release()
            except RuntimeError:
                pass  # it rings already


class _Awaiting:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        self._calls.awaited += 1
        self._calls.read_for_coroutines()

    def __exit__(self, *_: object) -> None:
        self._calls.awaited -= 1


_current: Calls | None = None


def call(name: str, args: dict[str, Any] | None = None) -> Any:
    """Call out of the run, and return the value that is replied.

    Raises:
        CallFailed: when the reply is an error, or the run ends first.
        RuntimeError: when no run is on.
        ValueError, TypeError: when the arguments are not plain JSON data.
    """
    pending = _made(name, args)
    try:
        pending.wait()
    finally:
        pending.leave()
    return pending.value()


async def call_async(name: str, args: dict[str, Any] | None = None) -> Any:
    """Call out of the run while other coroutines go on; as `call` in all else."""
    pending = _made(name, args)
    try:
        await pending.arrive()
    finally:
        pending.leave()
    return pending.value()


def _made(name: str, args: dict[str, Any] | None) -> Pending:
    if _current is None:
        raise RuntimeError(NO_RUN)
    if type(name) is not str or not (args is None or type(args) is dict):
        raise TypeError("a call needs a name, which is text, and its arguments, which are a dict")
    if is_deep(args):
        raise ValueError(f"the arguments of a call may be nested {CALL_DEPTH} deep at most")
    return _current.ask(name, args or {})
