"""What a service has open in its state folder: nothing before it is needed, and nothing after the service has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from belljar.durable.transitions import Transitions
from belljar.errors import SandboxClosed
from belljar.host.host import Host

if TYPE_CHECKING:  # few hosts have durable sandboxes: the others do not wait for these imports
    from belljar.durable.durability import Durability
    from belljar.durable.ledger import Ledger


class StateFolder:
    """Opens what durable sandboxes of a host need, at most once, and closes it in two steps around the host's end."""

    def __init__(
        self, host: Host, transitions: Transitions, ledger: Callable[[], Ledger], has_store: Callable[[], bool]
    ) -> None:
        self._host = host
        self._transitions = transitions
        self._make_ledger = ledger
        self._has_store = has_store
        self._opening: asyncio.Task[Durability] | None = None
        self._is_closing = False

    @property
    def is_used(self) -> bool:
        """Whether it was ever opened, or tried to."""
        return self._opening is not None

    @property
    def opened(self) -> Durability | None:
        """What durable sandboxes need, when it is open."""
        return None if self._is_closing else self._opened()

    async def durability(self) -> Durability:
        """What durable sandboxes need; opened when it is first asked for.

        Raises:
            SandboxClosed: when the service is being closed.
            SandboxError: when the state folder cannot be used; the next call tries again.
        """
        if self._is_closing:
            raise _closing()
        if self._is_unopened():
            self._opening = asyncio.get_running_loop().create_task(self._open())
        opening, mine = self._opening, asyncio.current_task()
        assert opening is not None
        assert mine is not None
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled() and not mine.cancelling():  # the end of the service gave it up, not the caller
                raise _closing() from None
            raise

    async def stored(self) -> Durability:
        """What durable sandboxes need, unless there cannot be any: then nothing is opened.

        Raises:
            SandboxMissing: when nothing was ever stored.
            SandboxError: as `durability` does.
        """
        if self._is_unopened() and not await asyncio.to_thread(self._has_store):
            from belljar.durable.ledger import missing

            raise missing()
        return await self.durability()

    async def stop(self) -> None:
        """Before the host ends: open nothing more, and look after its sandboxes no more."""
        self._is_closing = True
        if self._opening is not None:
            await asyncio.wait((self._opening,))
        if (opened := self._opened()) is not None:
            await opened.close()

    async def close(self) -> None:
        """After the host has ended: let go of the lock and the store, or give up what is still being opened."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait((self._opening,))
        if (opened := self._opened()) is not None:
            await opened.ledger.close()

    def forget(self) -> None:
        """In a forked child: let go of what is the parent's."""
        if (opened := self._opened()) is not None:
            opened.ledger.forget()

    def _opened(self) -> Durability | None:
        opening = self._opening
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        return opening.result()

    def _is_unopened(self) -> bool:
        """Whether it is not open, and not being opened."""
        return self._opening is None or (self._opening.done() and self._opened() is None)

    async def _open(self) -> Durability:
        from belljar.durable.durability import Durability

        ledger = self._make_ledger()
        made = Durability(self._host, ledger, self._transitions)
        try:
            await made.open()
        except BaseException:
            await made.close()
            await ledger.close()
            raise
        return made


def _closing() -> SandboxClosed:
    return SandboxClosed("the host is being closed, and starts or wakes no durable sandbox any more")
