"""The mounts of a sandbox that can mount nothing itself: it asks, one question at a time, and we look for it."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable

from belljar.engines.base import Event
from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.folders import Folders

ANSWER = b"A"  # as Fetches has its own kinds of messages
MOST_QUESTIONS = 1 << 30


class Mounts:
    """Takes a sandbox's questions, which are untrusted, and answers them off the loop."""

    def __init__(self, folders: Folders, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._folders = folders
        self._work: asyncio.Task[None] | None = None
        self._is_over = False

    def take(self, question: Event) -> None:
        """A question; its answer follows.

        Raises:
            BrokenProtocol: when the last one has no answer yet, or it is none.
        """
        number = question.get("number")
        if self._work is not None or type(number) is not int or not 0 <= number < MOST_QUESTIONS:
            raise BrokenProtocol("a question out of turn")
        self._work = asyncio.get_running_loop().create_task(self._answer(number, question))

    def end(self) -> None:
        """Let go of every folder and file, as soon as nobody works with them."""
        self._is_over = True
        if self._work is None:
            self._folders.close()

    async def _answer(self, number: int, question: Event) -> None:
        head, data = await asyncio.to_thread(self._folders.answer, question)
        self._work = None
        if self._is_over:
            self._folders.close()
            return
        text = json.dumps(head).encode("ascii")
        body = ANSWER + struct.pack(">II", number, len(text)) + text + data
        self._write(struct.pack(">I", len(body)) + body)
