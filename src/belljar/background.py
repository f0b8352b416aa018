"""One background event loop per process. It owns all sandboxes, so that they can be used from any thread or loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import sys
import threading
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar, cast

from belljar.errors import InvalidRequest, SandboxClosed

T = TypeVar("T")
_AT_ONCE: Any = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class BackgroundLoop:
    """An asyncio loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="belljar", daemon=True)
        self._thread.start()

    @property
    def reachable(self) -> bool:
        """Whether it still runs, in this very process: a forked child has no such thread."""
        return os.getpid() == self._process and not self.loop.is_closed()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run it there.

        Raises:
            SandboxClosed: when there is no such place any more.
        """
        self._check_reachable(coroutine)
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.loop.call_soon_threadsafe(self._begin, coroutine, future)
        return future

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it there and block until it is done; Ctrl-C here cancels it there."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise InvalidRequest("on_event may not wait for a sandbox; raise an exception to stop the run")
        self._check_reachable(coroutine)
        call = _Call(coroutine)
        self.loop.call_soon_threadsafe(partial(asyncio.Task, call.run(), loop=self.loop, **_AT_ONCE))
        try:
            call.ended.acquire()
        except BaseException:
            if not call.is_over and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(call.cancel)
                call.ended.acquire(timeout=10)
            raise
        return call.result()

    def cross(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Run a coroutine on the background loop; returns what the caller awaits, under asyncio or trio."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return _await_elsewhere(self.start(coroutine))
        if running is self.loop:  # the synchronous face is already there
            return coroutine
        return asyncio.wrap_future(self.start(coroutine))

    def stop(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self.loop.close()

    def _check_reachable(self, coroutine: Coroutine[Any, Any, object]) -> None:
        if not self.reachable:
            coroutine.close()
            raise SandboxClosed("the host of this sandbox was closed, or belongs to a parent process; make a new one")

    def _begin(self, coroutine: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]) -> None:
        """asyncio.run_coroutine_threadsafe() would do, but for a turn of the loop at either end of each call."""
        task = asyncio.Task(_deliver(coroutine, future), loop=self.loop, **_AT_ONCE)

        def pass_on(ended: concurrent.futures.Future[T]) -> None:
            if ended.cancelled() and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(task.cancel)

        future.add_done_callback(pass_on)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


class _Call(Generic[T]):
    """A coroutine whose end another thread waits for. A lock wakes that thread with less ado than a Future."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.ended = threading.Lock()
        self.ended.acquire()
        self.is_over = False
        self._coroutine = coroutine
        self._is_cancelled = False
        self._task: asyncio.Task[None] | None = None
        self._result: T | None = None
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Within the loop: see the coroutine through."""
        self._task, failure = asyncio.current_task(), None
        try:
            if self._is_cancelled:
                self._coroutine.close()
                raise asyncio.CancelledError
            self._result = await self._coroutine
        except BaseException as raised:  # not even SystemExit may end the loop that serves every sandbox
            failure = raised
        self._failure, self.is_over = failure, True
        self.ended.release()

    def cancel(self) -> None:
        """Within the loop: end it, also before it has begun."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def result(self) -> T:
        """What it returned, once it has ended.

        Raises:
            BaseException: what it raised.
        """
        failure, self._failure = self._failure, None
        if isinstance(failure, asyncio.CancelledError):
            raise concurrent.futures.CancelledError from failure
        if failure is not None:
            raise failure
        return cast("T", self._result)


async def _deliver(coroutine: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]) -> None:
    """See it through and tell the future, which its owner may have cancelled meanwhile."""
    try:
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            try:
                future.set_result(await coroutine)
            except asyncio.CancelledError:
                future.cancel()
                raise
            except BaseException as failure:  # not even SystemExit may end the loop that serves every sandbox
                future.set_exception(failure)
    finally:
        if future.cancelled():
            future.set_running_or_notify_cancel()  # wakes who waits for the end of what was cancelled


async def _await_elsewhere(future: concurrent.futures.Future[T]) -> T:
    """For trio: wait in a worker thread, and pass a cancellation on."""
    import anyio
    import anyio.to_thread

    try:
        limiter = anyio.CapacityLimiter(1)  # its own: the shared one would let no interrupt through behind many runs
        return await anyio.to_thread.run_sync(future.result, abandon_on_cancel=True, limiter=limiter)
    finally:
        if not future.done():
            future.cancel()
