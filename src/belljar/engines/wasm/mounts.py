"""The mounts of a sandbox that can mount nothing itself: it calls, one thing at a time, and we look for it."""

from __future__ import annotations

import asyncio
from typing import Any

from belljar.engines.transport.frames import BrokenProtocol
from belljar.engines.wasm.folders import Folders
from belljar.engines.wasm.replies import Replies


class Mounts:
    """Takes a sandbox's calls about its mounts, which are untrusted, and answers them off the loop."""

    def __init__(self, folders: Folders, replies: Replies) -> None:
        self._replies = replies
        self._folders = folders
        self._work: asyncio.Task[None] | None = None
        self._is_over = False

    def take(self, act: str, call_id: int, args: dict[str, Any]) -> None:
        """A call; its reply follows.

        Raises:
            BrokenProtocol: when the last one has no reply yet.
        """
        if self._work is not None:
            raise BrokenProtocol("a call about mounts before the last one was answered")
        self._work = asyncio.get_running_loop().create_task(self._answer(act, call_id, args))

    def end(self) -> None:
        """Let go of every folder and file, as soon as none is being looked at."""
        self._is_over = True
        if self._work is None:
            self._folders.close()

    async def _answer(self, act: str, call_id: int, args: dict[str, Any]) -> None:
        head, data = await asyncio.to_thread(self._folders.answer, {**args, "act": act})
        self._work = None
        if self._is_over:
            self._folders.close()
        elif "failure" in head:
            self._replies.fail(call_id, head["failure"], f"the mount call {act!r} failed")
        else:
            self._replies.reply(call_id, head, data if act == "read" else None)
