"""The kernel on engines with descriptors: frames on one private descriptor, streams on 0, 1 and 2."""

from __future__ import annotations

import os
import sys

import belljar_kernel
from belljar_kernel import clients, sockets
from belljar_kernel.answer import failure
from belljar_kernel.channel import Channel
from belljar_kernel.kernel import Kernel
from belljar_kernel.protocol import CHANNEL, PROTOCOL, WORKSPACE
from belljar_kernel.streams import DescriptorStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_exit, _getpid = os._exit, os.getpid


def prepare(workspace: str = WORKSPACE) -> Kernel:
    """A kernel that has done what every sandbox needs alike. A zygote makes it before it forks."""
    kernel = Kernel(workspace=workspace)
    sockets.explain(kernel.denials)
    kernel.watch(clients.patches())
    kernel.watch_imports()
    return kernel


def serve(fd: int, kernel: Kernel) -> NoReturn:
    """Answer Requests on a descriptor until it ends, then end the process.

    `python -m belljar_kernel FD` does so in a process of its own; a zygote calls this in a fork of itself.
    """
    os.set_inheritable(fd, False)
    os.set_blocking(fd, True)
    _claim_stdin(fd)
    channel = Channel(fd)
    kernel.calls.connect(channel)
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
        pass  # the host went away, and with it the reader of Events
    except BaseException as error:
        sys.__stderr__ and sys.__stderr__.write(f"belljar kernel: {type(error).__name__}: {error}\n")
        _exit(70)
    _exit(0)


def hello() -> dict[str, Any]:
    """The first Event of every kernel."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    return {"type": "hello", "id": 0, "protocol": PROTOCOL, "digest": belljar_kernel.digest(), "python": python}


def _fork(request: dict[str, Any], channel: Channel, kernel: Kernel) -> Channel:
    """Fork, and answer it. Parent and fork both return from here, each with its own channel."""
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
        kernel.calls.connect(channel)
        channel.send(hello())
    else:
        channel.send({**done, "left": left})
    return channel


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
