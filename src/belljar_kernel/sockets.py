"""Raw sockets where the only way out is a proxy: what has no route fails as ever, and says why. This is no wall."""

from __future__ import annotations

import errno
import functools
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from belljar_kernel.denials import Denials

ONLY_THE_PROXY = "only the proxy that http_proxy names leads out of this sandbox"
OWN_LOOPBACK = "loopback is the sandbox's own, where nothing listens on this port; the host's is not in Policy.network"
_NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM)
_LOOKUPS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def explain(denials: Denials) -> None:
    """From now on, have failures of this process's sockets name the rule; their classes and numbers stay."""
    for name in _LOOKUPS:
        setattr(socket, name, _lookup(getattr(socket, name), denials))
    kind: Any = socket.socket
    for name in ("connect", "sendto"):
        setattr(kind, name, _outward(getattr(kind, name), denials))
    kind.connect_ex = _quietly(kind.connect_ex, denials)


def _lookup(original: Callable[..., Any], denials: Denials) -> Callable[..., Any]:
    @functools.wraps(original)
    def lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(host, *args, **kwargs)
        except (socket.gaierror, socket.herror) as error:
            if not isinstance(host, (str, bytes)) or not host:
                raise
            number, kind = error.errno, type(error)
        port = args[0] if args else kwargs.get("port")
        raise kind(number, _told(denials, (host, port), "names are looked up by the proxy alone")) from None

    return lookup


def _outward(original: Callable[..., Any], denials: Denials) -> Callable[..., Any]:
    @functools.wraps(original)
    def outward(self: socket.socket, *args: Any) -> Any:
        try:
            return original(self, *args)
        except OSError as error:
            number = error.errno
            if self.family not in _FAMILIES or not args or number not in (*_NO_ROUTE, errno.ECONNREFUSED):
                raise
        if number == errno.ECONNREFUSED:
            raise OSError(number, denials.tell(written(args[-1]), OWN_LOOPBACK, denials.allowed)) from None
        raise OSError(number, _told(denials, args[-1], ONLY_THE_PROXY)) from None

    return outward


def _quietly(original: Callable[..., int], denials: Denials) -> Callable[..., int]:
    @functools.wraps(original)
    def connect_ex(self: socket.socket, address: Any) -> int:
        number = original(self, address)
        if number in _NO_ROUTE and self.family in _FAMILIES:
            _told(denials, address, ONLY_THE_PROXY)
        return number

    return connect_ex


def _told(denials: Denials, address: Any, rule: str) -> str:
    return denials.refuse(written(address), rule)


def written(address: Any) -> str:
    """An address as a target: the host, and the port where one is known."""
    host, port = (*address, None)[:2] if isinstance(address, tuple) else (address, None)
    host = host.decode("utf-8", "replace") if isinstance(host, bytes) else str(host)
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port}" if port else host
