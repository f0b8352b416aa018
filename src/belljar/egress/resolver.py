"""Names to addresses, by the machine's own resolver. Hung lookups hold a few threads of their own and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

_LOOKUPS = 8


class SystemResolver:
    """`getaddrinfo`, for at most a few names at once."""

    def __init__(self, lookups: int = _LOOKUPS) -> None:
        self._free = asyncio.Semaphore(lookups)

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of a name, in the order to try them.

        Raises:
            OSError: when there are none.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def finish(found: list[str] | OSError) -> None:
            self._free.release()  # here and not by the waiter, who may have left while the thread hangs
            if answer.done():
                return
            if isinstance(found, list):
                answer.set_result(found)
            else:
                answer.set_exception(found)

        def look() -> None:
            found = _lookup(host, port)
            with contextlib.suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(finish, found)

        # A daemon: a name server that does not answer must not hold up the end of the process.
        threading.Thread(target=look, name="belljar-lookup", daemon=True).start()
        return await answer


def _lookup(host: str, port: int) -> list[str] | OSError:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except (UnicodeError, ValueError) as error:
        return OSError(str(error))
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
