"""Pieces of an asynchronous iterator, for a thread that writes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from types import TracebackType


class Pulled:
    """Iterates in a thread what the loop gives piece by piece. Leaving the `with` block ends a thread that still waits.

    The thread gets `CancelledError` then.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._next: Future[bytes | None] | None = None
        self._is_over = False

    def __enter__(self) -> Pulled:
        """Begin; the caller hands this object to its thread."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the thread's wait, if it waits."""
        with self._lock:
            self._is_over = True
            if self._next is not None:
                self._next.cancel()

    def __iter__(self) -> Iterator[bytes]:
        """The pieces, in the thread."""
        while True:
            with self._lock:
                if self._is_over:
                    raise asyncio.CancelledError
                self._next = asyncio.run_coroutine_threadsafe(self._one(), self._loop)
            piece = self._next.result()
            if piece is None:
                return
            yield piece

    async def _one(self) -> bytes | None:
        return await anext(self._pieces, None)
