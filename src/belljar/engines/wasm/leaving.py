"""The files that a process hands over before it ends, whatever its Python is doing. All of it is untrusted."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

from belljar.engines.base import Event
from belljar.engines.transport.frames import BrokenProtocol, FrameReader
from belljar_kernel.protocol import EVENTS, PATH_CHARS, WORKSPACE

END_TIMEOUT_S = 3  # until Python has ended
HAND_OVER_TIMEOUT_S = 30  # until the files are here
HAND_BACK_TIMEOUT_S = 60  # until the next process has them
FRAMES_PER_MB, LEAST_FRAMES = 257, 2048  # as many files as fit, and a frame for each piece of the large ones
FOLDER, FILE, KIND, PERMISSIONS = 0o40000, 0o100000, 0o170000, 0o7777
KINDS = {FOLDER: "directory", FILE: "file"}
USUAL = {FOLDER | 0o755, FILE | 0o644}

Restore = dict[str, Any]


class Leaving:
    """Takes the bytes of a process that was told to leave: nothing counts until the marker that only we know."""

    def __init__(self, disk_mb: int) -> None:
        self.marker = secrets.token_bytes(32)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.files: asyncio.Future[list[Restore] | None] = asyncio.get_running_loop().create_future()
        self._left_frames = FRAMES_PER_MB * disk_mb + LEAST_FRAMES
        self._left_bytes = (disk_mb << 20) * 4 // 3 + (1 << 20)  # in base64
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
        if not self.ended.done():
            self.ended.set_result(None)
        if not self.files.done():
            self.files.set_result(None)

    def _after_marker(self, data: bytes) -> bytes:
        self._buffer += data
        _, found, rest = self._buffer.partition(self.marker)
        self._buffer = b"" if found else self._buffer[-len(self.marker) :]
        if found:
            self._reader = FrameReader()
            self.ended.set_result(None)
        return rest

    def _on_event(self, event: Event) -> None:
        if event["type"] == "left":
            self.files.set_result(self._restores)
            return
        if event["type"] != "file":
            raise BrokenProtocol("not a file")
        if max(len(event["path"]), len(event.get("target") or "")) > PATH_CHARS:
            raise BrokenProtocol("no such path")
        self._left_bytes -= len(event["data"])
        self._left_frames -= 1
        if self._left_bytes < 0 or self._left_frames < 0:
            raise BrokenProtocol("more files than there can be")
        restore = {name: event[name] for name in EVENTS["file"] if event.get(name) is not None}
        self._restores.append({"type": "file_restore", **restore})


def listing(restores: list[Restore]) -> list[tuple[str, str, int, float]]:
    """What is in the workspace that was handed over, as the program inside would list it."""
    facts: dict[tuple[str, ...], tuple[str, int, float]] = {}
    for restore in restores:
        root, *parts = restore["path"].removeprefix("/").split("/")
        if f"/{root}" == WORKSPACE and parts:
            before = facts[*parts][1] if restore["append"] and tuple(parts) in facts else 0
            data = restore["data"]
            size = before + len(data) * 3 // 4 - data[-2:].count("=")
            kind = KINDS.get(restore["mode"] & KIND, "other")
            facts[*parts] = ("symlink" if "target" in restore else kind, size, restore["modified"] / 1000)
    return [("/".join(parts), *facts[parts]) for parts in sorted(facts)]


def in_order(restores: list[Restore]) -> Iterator[Restore]:
    """What puts files back: everything first, as its owner may write it, then the modes, the deepest first."""
    modes: dict[str, int] = {}
    for restore in restores:
        yield restore
        if restore["mode"] not in USUAL and "target" not in restore:
            modes[restore["path"]] = restore["mode"]
    for path in reversed(modes):
        yield {"type": "file_mode", "path": path, "mode": modes[path] & PERMISSIONS}
