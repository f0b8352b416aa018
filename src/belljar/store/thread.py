"""One thread in which a store is used, so that no loop ever waits for a disk."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from belljar.errors import StoreFailed
from belljar.store.base import Store

T = TypeVar("T")
Job = tuple[Callable[[Store], Any], "concurrent.futures.Future[Any]"]


class StoreThread:
    """Does one thing after the other, in order.

    A thread of its own, not one of an executor: those take nothing more once the interpreter has begun to end, and
    that is when the last checkpoints are written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="belljar-store", daemon=True)
        self._thread.start()

    async def call(self, act: Callable[[Store], T]) -> T:
        """Do an act in the thread and wait for it here. When the wait is cancelled, the act is still done.

        Raises:
            StoreFailed: when the store could not.
        """
        return await asyncio.wrap_future(self.begin(act))

    @property
    def backlog(self) -> int:
        """How much is still to be done."""
        return self._jobs.qsize()

    def begin(self, act: Callable[[Store], T]) -> concurrent.futures.Future[T]:
        """Do an act in the thread, after all acts that were begun before."""
        if self._closed:
            raise StoreFailed("the store was closed with its host")
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._jobs.put((act, future))
        return future

    def close(self, seconds: float = 10) -> None:
        """See everything through that was begun, and let go of the store."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        self._thread.join(seconds)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            act, future = job
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # the caller cancelled its wait
                try:
                    future.set_result(act(self._store))
                except BaseException as failure:
                    future.set_exception(failure)
            del job, act, future  # checkpoints are large
        self._store.close()
