"""Waiting where there is one thread and no system underneath: `time.sleep` and asyncio wait through the engine.

For WebAssembly. A wait ends early when the host interrupts, and the signal is then delivered as anywhere else.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio import base_events, events

from belljar_kernel import offline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from belljar_kernel.calls import Calls

    Wait = Callable[[float, bool], bool]

LONGEST_S = 3600.0
NEVER = (
    "this wait would never end: nothing is left that could end it (in this engine there are no threads and no sockets, "
    "and JavaScript's promises cannot be awaited)"
)
_monotonic, _getsignal, _getframe, _SIGINT = time.monotonic, signal.getsignal, sys._getframe, signal.SIGINT
_wait: Wait | None = None
_calls: Calls | None = None


def install() -> None:
    """Put our waiting in place of the engine's own, which needs an event loop of JavaScript that never runs here."""
    vars(time)["sleep"] = sleep
    events._set_running_loop(None)  # the engine's own loop claims to run, always
    asyncio.run = asyncio.runners.run
    getattr(events, "_set_event_loop_policy", asyncio.set_event_loop_policy)(_Policy())


def connect(wait: Wait, calls: Calls) -> None:
    """From here on wait by `wait(seconds, or_for_calls)`, which says whether an interrupt ended it early."""
    global _wait, _calls
    _wait, _calls = wait, calls


def sleep(seconds: float, /) -> None:
    """Do nothing for a while, as `time.sleep` does."""
    if seconds != seconds:
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    end = _monotonic() + seconds
    while (left := end - _monotonic()) > 0:
        if _wait is not None and _wait(min(left, LONGEST_S), False):
            _deliver()


def wait_for_message(seconds: float) -> None:
    """Do nothing until the host has sent something, or for so long."""
    if _wait is not None and _wait(min(seconds, LONGEST_S), True):
        _deliver()


def _deliver() -> None:
    handler = _getsignal(_SIGINT)
    if callable(handler):
        handler(_SIGINT, _getframe(1))


class _Selector:
    """Nothing can become ready here but the time, and what the host sends."""

    def select(self, timeout: float | None) -> list[object]:
        if _calls is not None and _calls.awaited:
            if not _calls.deliver() and timeout != 0:
                wait_for_message(LONGEST_S if timeout is None else timeout)
                _calls.deliver()
            return []
        if timeout is None:
            raise RuntimeError(NEVER)
        if timeout > 0 and _wait is not None and _wait(min(timeout, LONGEST_S), False):
            _deliver()
        return []


class _Loop(base_events.BaseEventLoop):
    """asyncio's own loop, with nothing but timers and the host's answers to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Selector()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Without threads it is done on the spot; an executor of the caller's own is his affair."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as failure:
            future.set_exception(failure)
        return future

    async def create_connection(self, *address: Any, **__: Any) -> Any:
        """There are no sockets to connect."""
        offline.refuse_network(address[1:3])

    create_datagram_endpoint = create_server = create_unix_connection = sock_connect = create_connection

    def _process_events(self, event_list: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _Policy(events._BaseDefaultEventLoopPolicy if sys.version_info >= (3, 14) else events.BaseDefaultEventLoopPolicy):  # type: ignore[misc]
    _loop_factory = _Loop
