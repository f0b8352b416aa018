"""The private socket of a host: other processes of its user ask it what it has, or to close a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

TIMEOUT_S = 30.0
MOST_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("3i")


Answer = Callable[[Any], Awaitable[dict[str, Any]]]


class ControlSocket:
    """Answers one line of JSON with another."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, folder: Path, name: str, answer: Answer) -> ControlSocket:
        """Listen in a folder, under this name.

        Raises:
            OSError: on a system that cannot.
        """
        made = cls(answer)
        listener = socket.socket(socket.AF_UNIX)
        try:
            with _short(folder, name) as path:
                listener.bind(path)
            (folder / name).chmod(0o600)
            made._server = await asyncio.start_unix_server(made._serve, sock=listener, limit=MOST_BYTES)
        except OSError:
            listener.close()
            raise
        return made

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _is_own(writer.get_extra_info("socket")):
                async with asyncio.timeout(TIMEOUT_S):
                    answer = await self._answer(json.loads(await reader.readline()))
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
        except (OSError, ValueError, RecursionError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the other process has gone, or did not ask properly
        finally:
            writer.close()


def ask(state_dir: Path, host: str, request: dict[str, Any]) -> dict[str, Any] | None:
    """What the host of that name answers; None when it does not. Blocks."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(TIMEOUT_S)
        try:
            with _short(state_dir / "hosts", f"{host}.sock") as path:
                line.connect(path)
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json.loads(answers.readline())
        except (OSError, ValueError, RecursionError):
            return None
    return answer if isinstance(answer, dict) else None


@contextlib.contextmanager
def _short(folder: Path, name: str) -> Iterator[str]:
    """A path that fits: the address of a socket has room for a hundred characters only."""
    whole = str(folder / name)
    if len(os.fsencode(whole)) < 100 or not os.path.isdir("/proc/self/fd"):
        yield whole
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _is_own(line: socket.socket) -> bool:
    """Whether this user asks, or root. The folder keeps other users out already; this asks the system where it can."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid in (os.getuid(), 0)
