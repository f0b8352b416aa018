"""One call out of a run that waits for its reply, and the post by which replies come."""

from __future__ import annotations

from belljar_kernel.protocol import CALL_DEPTH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from typing import Any, Protocol

    from belljar_kernel.calls import Calls

    class Post(Protocol):
        """How replies arrive."""

        reads_in_thread: bool  # whether a thread must read for coroutines, beside their loop

        def take(self) -> list[dict[str, Any]]:
            """The replies that are there; the caller is the one reader."""

        def wait(self, seconds: float) -> None:
            """Block until something may have come, or `wake` was called, or for so long."""

        def get_ready(self) -> None:
            """Prepare to wait: from here on `wake` works."""

        def wake(self) -> None:
            """End a wait of another thread."""

        def rest(self) -> None:
            """Let go of what was made for waiting."""


class CallFailed(RuntimeError):
    """A call out of the run that came to no value: the name and the text of an error."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.name = name
        self.text = text

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Pending:
    """One call on its way; settled once, by a reply or because none can come any more."""

    def __init__(self, calls: Calls, number: int, lasts: bool) -> None:
        self.number = number
        self.lasts = lasts
        self.is_settled = False
        self._calls = calls
        self._value: Any = None
        self.failure: tuple[str, str] | None = None
        self._arrivals: list[tuple[Any, Future[None]]] = []

    def wait(self, seconds: float | None = None) -> None:
        """Block until it is settled.

        Raises:
            TimeoutError: when that takes longer.
        """
        self._calls.wait_until(self._settled, seconds)

    async def arrive(self) -> None:
        """Return once it is settled, while other coroutines go on."""
        import asyncio

        loop = asyncio.get_running_loop()
        arrival: Future[None] = loop.create_future()
        with self._calls.interrupts, self._calls.lock:
            if self.is_settled:
                return
            self._arrivals.append((loop, arrival))
        with self._calls.awaiting():
            await arrival

    def value(self) -> Any:
        """What was replied.

        Raises:
            CallFailed: when that is an error.
        """
        if self.failure is not None:
            raise CallFailed(*self.failure)
        return self._value

    def settle(self, value: Any = None, failure: tuple[str, str] | None = None) -> None:
        """Give it its end; a second one is dropped."""
        with self._calls.interrupts, self._calls.lock:
            if self.is_settled:
                return
            self._value, self.failure, self.is_settled = value, failure, True
            arrivals, self._arrivals = self._arrivals, []
        for loop, arrival in arrivals:
            try:
                loop.call_soon_threadsafe(_arrive, arrival)
            except RuntimeError:
                pass  # that loop is closed, and runs nothing that waits

    def leave(self) -> None:
        """Drop the reply, if it has not come: it is not waited for any more."""
        self._calls.forget(self.number)

    def _settled(self) -> bool:
        return self.is_settled


def _arrive(arrival: Future[None]) -> None:
    if not arrival.done():
        arrival.set_result(None)


def is_deep(args: Any) -> bool:
    """Whether the arguments of a call are nested deeper than the host takes them."""
    level = [args or {}]
    for _ in range(CALL_DEPTH):
        parts = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
        level = [part for part in parts if isinstance(part, (dict, list, tuple))]
        if not level:
            return False
    return True
