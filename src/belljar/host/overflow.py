"""Output over a run's cap: the Execution has the beginning, a file in the workspace has all of it."""

from __future__ import annotations

import contextlib

from belljar.engines.base import Workspace
from belljar.errors import SandboxError
from belljar.execution import OUTPUT_FOLDER, ChangedFile, Execution
from belljar.host.budget import Budget
from belljar.pieces import cut
from belljar.service.base import PIECE_BYTES

MOST_BYTES = 16 << 20
DISK_SHARE = 4  # one part of the sandbox's disk in so many


class Overflow:
    """The output of a run over its caps, held outside until the run has ended.

    It has a bound, since the code decides how much there is.
    """

    def __init__(self, disk_mb: int, budget: Budget) -> None:
        self._budget = budget
        self._most = min(MOST_BYTES, (disk_mb << 20) // DISK_SHARE)
        self._rest = {"stdout": bytearray(), "stderr": bytearray()}  # joined, however small the pieces that come
        self._size = 0
        self._is_cut = False

    def add(self, stream: str, text: str) -> None:
        """Hold what did not fit into the Execution any more."""
        data = text.encode("utf-8", "surrogatepass")
        room = max(0, min(self._most - self._size, self._budget.left))
        self._is_cut = self._is_cut or len(data) > room
        if kept := data[:room]:
            self._rest[stream] += kept
            self._size += len(kept)
            self._budget.take(len(kept))

    async def keep(self, execution: Execution, workspace: Workspace) -> None:
        """Write each stream whole and name the file in the Execution; where it has no room, it stays dropped."""
        if not self._size:
            return
        with contextlib.suppress(SandboxError):
            await workspace.delete(OUTPUT_FOLDER)
        for stream, rest in self._rest.items():
            if rest:
                shown = "".join(getattr(execution.logs, stream)).encode("utf-8", "surrogatepass")
                parts = (shown, rest, self._note())
                path = f"{OUTPUT_FOLDER}/run-{execution.execution_count}.{stream}.txt"
                with contextlib.suppress(SandboxError):
                    await workspace.write(path, cut(parts, PIECE_BYTES))
                    execution.files.append(ChangedFile(path, sum(map(len, parts)), "text/plain"))

    def forget(self) -> None:
        """Hold nothing any more."""
        self._budget.give_back(self._size)
        self._size = 0
        self._rest.clear()

    def _note(self) -> bytes:
        return f"\n[what came after {self._size:,} bytes more was dropped]\n".encode() if self._is_cut else b""
