"""Top-level await: one event loop, kept over runs. Tasks left behind go on whenever a later run awaits something."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Coroutine
    from typing import Any

_loop: AbstractEventLoop | None = None


def forget() -> None:
    """In a fork: the loop waits on descriptors that are not ours."""
    global _loop
    if _loop is not None:
        import asyncio

        _loop = None
        asyncio.set_event_loop(None)


def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end on the kept loop."""
    import asyncio

    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)
    task = _loop.create_task(coroutine)
    try:
        return _loop.run_until_complete(task)
    except BaseException:
        if not task.done():  # an interrupt hit the loop itself: do not let this cell go on in a later one
            task.cancel()
            _loop.call_soon(_loop.stop)
            _loop.run_forever()
        raise
