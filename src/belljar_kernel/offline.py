"""No network and no processes, said at once and plainly, where there is no system to say it. For WebAssembly."""

from __future__ import annotations

import errno
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

MESSAGE = "the network is off in this sandbox; allow hosts with Policy(network=[...])"


NO_PROCESSES = "this engine has no processes; use engine='native' for them"


def install() -> None:
    """Refuse where Python asks."""
    for name in ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            setattr(os, name, _no_process)
    names = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")
    for name in names:
        setattr(socket, name, _no_name)
    for name in ("connect", "sendto", "bind", "listen"):
        setattr(socket.socket, name, _no_network)
    vars(socket)["socket"].connect_ex = lambda *_: errno.ENETUNREACH


def _no_name(*_: object, **__: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_FAIL, MESSAGE)


def _no_process(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSYS, NO_PROCESSES)


def _no_network(*_: object) -> NoReturn:
    raise OSError(errno.ENETUNREACH, MESSAGE)
