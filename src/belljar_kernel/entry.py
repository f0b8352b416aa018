"""The kernel on engines with descriptors: frames on one private descriptor, streams on 0, 1 and 2."""

from __future__ import annotations

import os
import sys

import belljar_kernel
from belljar_kernel import clients, codec, sockets
from belljar_kernel.answer import failure
from belljar_kernel.kernel import Kernel
from belljar_kernel.protocol import CHANNEL, FRAME_BYTES, PROTOCOL, WORKSPACE
from belljar_kernel.streams import DescriptorStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

HELD_BYTES = 64 * 1024
SMALL_READ = 4096  # most Requests are read at once
_read, _write, _exit, _getpid = os.read, os.write, os._exit, os.getpid
_len, _memoryview, _bytes, _bytearray = len, memoryview, bytes, bytearray


def prepare(workspace: str = WORKSPACE) -> Kernel:
    """A kernel that has done what is the same in every sandbox. A zygote makes it before it forks."""
    kernel = Kernel(workspace=workspace)
    sockets.explain(kernel.denials)
    kernel.watch(clients.patches())
    kernel.watch_imports()
    return kernel


def serve(fd: int, kernel: Kernel) -> NoReturn:
    """Answer Requests on a descriptor until it ends, then end the process.

    `python -m belljar_kernel FD` does the same in a process of its own; a zygote calls this in a fork of itself.
    """
    os.set_inheritable(fd, False)
    os.set_blocking(fd, True)
    _claim_stdin(fd)
    channel = Channel(fd)
    kernel.streams = DescriptorStreams()
    kernel.interrupts.install()
    try:
        channel.send(hello())
        while (request := channel.receive()) is not None:
            if type(request) is dict and request.get("type") == "fork":
                channel = _fork(request, channel, kernel)
            else:
                kernel.handle(request, channel.send)
    except ConnectionError:
        pass  # the host went away: nobody is left to tell
    except BaseException as error:
        sys.__stderr__ and sys.__stderr__.write(f"belljar kernel: {type(error).__name__}: {error}\n")
        _exit(70)
    _exit(0)


def hello() -> dict[str, Any]:
    """The first Event of every kernel."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    return {"type": "hello", "id": 0, "protocol": PROTOCOL, "digest": belljar_kernel.digest(), "python": python}


def _fork(request: dict[str, Any], channel: Channel, kernel: Kernel) -> Channel:
    """Answer a `fork`; the channel of whoever returns from here, of which there are two."""
    from belljar_kernel import forking

    done: dict[str, Any] = {"type": "done", "id": request.get("id")}
    pid = _getpid()
    try:
        left = forking.fork(kernel)
    except BaseException as error:
        if _getpid() != pid:
            _exit(1)
        channel.send({**done, **failure(type(error).__name__, str(error)[:1000])})
        return channel
    if left is None:
        channel = Channel(CHANNEL)
        channel.send(hello())
    else:
        channel.send({**done, "left": left})
    return channel


class Channel:
    """Frames over one descriptor: four bytes of length, then JSON."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pid = _getpid()
        self._held = b""
        self._rest = bytearray()  # read, and not taken yet; nothing comes after a `fork` before it was answered

    def receive(self) -> Any:
        """The next document, or None at the end. A frame that is not JSON is given as the string it cannot be."""
        head = self._read_exactly(4)
        if head is None:
            return None
        size = int.from_bytes(head, "big")  # from the host: whatever it sends is meant
        frame = self._read_exactly(size)
        if frame is None:
            return None
        try:
            return codec.decode(frame)
        except (ValueError, RecursionError):
            return "not JSON"

    def send(self, document: dict[str, Any]) -> None:
        """Write one frame, whole. A run's value waits for the `done` that follows it at once, to wake the host once.

        Raises:
            ValueError, TypeError: when the document is not plain JSON data, or too large for a frame.
            OSError: when nobody reads any more.
        """
        if _getpid() != self._pid:
            _exit(1)
        body = codec.encode(document)
        if _len(body) > FRAME_BYTES:
            raise ValueError("too large for a frame")
        frames = self._held + _len(body).to_bytes(4, "big") + body
        self._held = b""
        if document.get("main") is True and _len(frames) < HELD_BYTES:
            self._held = frames
            return
        rest = _memoryview(frames)
        while rest:
            rest = rest[_write(self._fd, rest) :]

    def _read_exactly(self, size: int) -> bytes | None:
        rest = self._rest
        while _len(rest) < size:
            chunk = _read(self._fd, min(max(size - _len(rest), SMALL_READ), 1 << 20))
            if not chunk:
                return None
            rest += chunk
        if _len(rest) == size:
            self._rest = _bytearray()
            return _bytes(rest)
        content = _bytes(rest[:size])
        del rest[:size]
        return content


def _claim_stdin(fd: int) -> None:
    """Descriptor 0 is /dev/null for the code and its children, whatever the parent left there."""
    if fd == 0:
        raise ValueError("the channel cannot be descriptor 0")
    try:
        null = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return
    os.dup2(null, 0)
    if null == 0:
        os.set_inheritable(0, True)
    else:
        os.close(null)
