"""No network and no processes, said at once and plainly, where there is no system to say it. For WebAssembly."""

from __future__ import annotations

import errno
import os
import socket

from belljar_kernel.imports import ImportWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

MESSAGE = "the network is off in this sandbox; allow hosts with Policy(network=[...])"
NO_PROCESSES = "this engine has no processes; use engine='native' for them"


def install() -> None:
    """Refuse where Python asks, and where the libraries ask that would go around it."""
    for name in ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            setattr(os, name, _no_process)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        setattr(socket, name, _no_name)
    for name in ("connect", "sendto", "bind", "listen"):
        setattr(socket.socket, name, refuse_network)
    vars(socket)["socket"].connect_ex = lambda *_: errno.ENETUNREACH
    ImportWatch(
        {
            "urllib3.contrib.emscripten.connection": _close_urllib3,
            "httpx._transports.jsfetch": _close_httpx,
            "pyodide.http": _close_pyodide,
        }
    ).install()


def _close_urllib3(module: Any) -> None:
    module.send_request = module.send_streaming_request = refuse_network


def _close_httpx(module: Any) -> None:
    def refuse(_: object, request: object) -> NoReturn:
        raise module.ConnectError(MESSAGE, request=request)

    async def refuse_later(transport: object, request: object) -> NoReturn:
        refuse(transport, request)

    module.JavascriptFetchTransport.handle_request = refuse
    module.AsyncJavascriptFetchTransport.handle_async_request = refuse_later


def _close_pyodide(module: Any) -> None:
    async def refuse(*_: object, **__: object) -> NoReturn:
        refuse_network()

    module.pyfetch = refuse
    module.open_url = refuse_network


def _no_process(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSYS, NO_PROCESSES)


def _no_name(*_: object, **__: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_FAIL, MESSAGE)


def refuse_network(*_: object, **__: object) -> NoReturn:
    """Say that there is no network."""
    raise OSError(errno.ENETUNREACH, MESSAGE)
