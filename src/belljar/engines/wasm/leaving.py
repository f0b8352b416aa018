"""The files that a process hands over before it ends, whatever its Python is doing. All of it is untrusted."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from belljar.engines.base import Event
from belljar.engines.channel import BrokenProtocol, FrameReader

LEAVE_TIMEOUT_S = 10
FIELDS = {"path": (str,), "mode": (int,), "modified": (int, float), "append": (bool,), "data": (str,)}
MAX_FRAMES = 200_000

Restore = dict[str, Any]


class Leaving:
    """Takes the bytes of a process that was told to leave: nothing counts until the marker that only we know."""

    def __init__(self, max_bytes: int) -> None:
        self.marker = secrets.token_bytes(32)
        self.files: asyncio.Future[list[Restore] | None] = asyncio.get_running_loop().create_future()
        self._left_bytes = max_bytes * 4 // 3 + (1 << 20)  # in base64
        self._buffer = b""
        self._reader: FrameReader | None = None
        self._restores: list[Restore] = []

    def take(self, data: bytes) -> None:
        """Bytes from the process."""
        if self.files.done():
            return
        try:
            if self._reader is None:
                data = self._after_marker(data)
            if self._reader is not None:
                for event in self._reader.feed(data):
                    self._on_event(event)
        except BrokenProtocol:
            self.give_up()

    def give_up(self) -> None:
        """The process ended, or told nonsense: the files are lost."""
        if not self.files.done():
            self.files.set_result(None)

    def _after_marker(self, data: bytes) -> bytes:
        self._buffer += data
        _, found, rest = self._buffer.partition(self.marker)
        self._buffer = b"" if found else self._buffer[-len(self.marker) :]
        if found:
            self._reader = FrameReader()
        return rest

    def _on_event(self, event: Event) -> None:
        if event["type"] == "left":
            self.files.set_result(self._restores)
            return
        target = event.get("target")
        is_whole = all(type(event.get(name)) in kinds for name, kinds in FIELDS.items())
        if event["type"] != "file" or not is_whole or not isinstance(target, str | None):
            raise BrokenProtocol("not a file")
        self._left_bytes -= len(event["data"])
        if self._left_bytes < 0 or len(self._restores) >= MAX_FRAMES:
            raise BrokenProtocol("more files than there can be")
        restore = {name: event[name] for name in FIELDS} | ({"target": target} if target is not None else {})
        self._restores.append({"type": "file_restore", **restore})
