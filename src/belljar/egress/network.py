"""One sandbox's way out: a proxy made at its first use. What it refuses is kept for Executions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from belljar.egress.shares import of_descriptors
from belljar.execution import Denial
from belljar.text import plain
from belljar_kernel.protocol import DENIALS

if TYPE_CHECKING:
    from belljar.egress.server import Egress

LONGEST_TEXT = 1000
FEWEST_CONNECTIONS, FOR_REFUSALS = 8, 32
SHARE = 64  # of the files that this process may open, one in so many


class Network:
    """One sandbox's egress proxy and what was refused. What arrives between two runs is reported by the later one."""

    def __init__(self, hosts: Sequence[str] = (), most_connections: int = FOR_REFUSALS) -> None:
        self._hosts = tuple(hosts)
        self._most = _affordable(most_connections) if self._hosts else FOR_REFUSALS
        self._making: asyncio.Task[Egress] | None = None
        self._denials: dict[tuple[str, ...], Denial] = {}  # each once, the first ones
        self._closed = False
        if self._hosts:  # it will be wanted, and a mistake in the list must be reported: meanwhile the sandbox starts
            self._begin()

    async def egress(self) -> Egress:
        """The sandbox's only way out. Its modules are imported off the loop, at the first use in this process.

        Raises:
            InvalidRequest: for an entry of `Policy.network` that has no clear meaning.
        """
        return await asyncio.shield(self._begin())

    def note(self, denial: Denial) -> None:
        """Keep what was refused."""
        if len(self._denials) < DENIALS:
            self._denials.setdefault((denial.kind, denial.target, denial.rule, denial.hint, denial.source), denial)

    def note_event(self, event: Mapping[str, Any]) -> None:
        """Keep what the kernel says that it refused, as its word: it is not trusted."""
        kind, target, rule, hint = (plain(event.get(name), LONGEST_TEXT) for name in ("kind", "target", "rule", "hint"))
        if kind and target:
            self.note(Denial(kind, target, rule, hint, source="kernel"))

    def take_denials(self) -> list[Denial]:
        """All since the last call."""
        taken, self._denials = self._denials, {}
        return list(taken.values())

    async def close(self) -> None:
        """End every connection."""
        self._closed = True
        if self._making is not None:
            made = (await asyncio.gather(self._making, return_exceptions=True))[0]
            if not isinstance(made, BaseException):
                await made.close()

    def _begin(self) -> asyncio.Task[Egress]:
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        return self._making

    async def _make(self) -> Egress:
        server = await asyncio.to_thread(import_module, "belljar.egress.server")
        caps = server.Caps(connections=self._most)
        made: Egress = server.Egress(self._hosts, caps=caps, on_denial=self.note)
        if self._closed:
            await made.close()
        return made


def _affordable(most: int) -> int:
    """How many a sandbox may have at once: two descriptors of this process each, which all sandboxes share."""
    return of_descriptors(SHARE, FEWEST_CONNECTIONS, most)
