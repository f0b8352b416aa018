"""No sockets and no processes, said at once and plainly, where there is no system to say it. For WebAssembly.

HTTP clients ask the host instead; this is what is left.
"""

from __future__ import annotations

import errno
import os
import socket

from belljar_kernel.mail import mail
from belljar_kernel.sockets import written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NO_SOCKETS = "this engine has no sockets, only HTTP clients such as requests and httpx reach a host"
NO_PROCESSES = "this engine has no processes; use engine='native' for them"


def install() -> None:
    """Refuse where Python asks."""
    for name in ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            setattr(os, name, _no_process)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        setattr(socket, name, _no_name)
    kind: Any = vars(socket)["socket"]
    kind.connect = kind.sendto = kind.bind = lambda _, *address: refuse_network(*address[-1:])
    kind.listen = lambda *_: refuse_network("a listening socket")
    kind.connect_ex = _refuse_quietly


def patches() -> dict[str, Callable[[Any], None]]:
    """What to do with which module, so that HTTP clients ask the host."""
    return {
        "http.client": lambda module: _transports().patch_http_client(module),
        "urllib3.connection": lambda module: _transports().patch_urllib3(module),
        "urllib3.contrib.emscripten": lambda module: _transports().keep_urllib3(module),
        "httpx._transports.jsfetch": lambda module: _transports().patch_httpx(module),
        "pyodide.http": _patch_pyodide,
    }


def refuse_network(address: object = "a connection") -> NoReturn:
    """Say that there are no sockets."""
    raise OSError(errno.ENETUNREACH, _told(address))


def _transports() -> Any:
    """Only code that uses such a client pays for it."""
    from belljar_kernel import transports

    return transports


def _patch_pyodide(module: Any) -> None:
    from belljar_kernel import browser

    browser.patch_pyodide_http(module)


def _refuse_quietly(_: object, address: object) -> int:
    _told(address)
    return errno.ENETUNREACH


def _no_process(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSYS, NO_PROCESSES)


def _no_name(host: object = "a name", port: object = None, *_: object, **__: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_FAIL, _told((host, port)))


def _told(address: object) -> str:
    return mail.denials.refuse(written(address), NO_SOCKETS)
