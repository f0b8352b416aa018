"""The URLs that a guest asks for, split without leniency: what two parsers could read differently is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from belljar.egress.hosts import Host, NotAHost, authority, split_authority
from belljar.egress.refusals import Refused

_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_PLAIN = re.compile(r"[\x21-\x7e]*")


@dataclass(frozen=True)
class Url:
    """An absolute http or https URL, its host in canonical form."""

    scheme: str
    host: Host
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What belongs into a Host header: no port where it is the scheme's own."""
        whole = authority(self.host, self.port)
        return whole.rpartition(":")[0] if self.port == _PORTS[self.scheme] else whole

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: str) -> Url:
    """Split an absolute URL.

    Raises:
        Refused: for another scheme than http and https (403), and for what is no URL (400).
    """
    if not _PLAIN.fullmatch(text) or "\\" in text:
        raise _malformed(text, "it has characters that must be encoded")
    match = _SCHEME.fullmatch(text)
    if match is None:
        raise _malformed(text, "it must be absolute, like http://example.com/")
    scheme = match[1].lower()
    if scheme not in _PORTS:
        raise Refused(text, "only http and https are allowed", f"not {scheme}")
    if not match[2].startswith("//"):
        raise _malformed(text, "there must be // in front of the host")
    rest = match[2][2:].partition("#")[0]
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    try:
        host, port = split_authority(rest[:end], _PORTS[scheme])
    except NotAHost as reason:
        raise _malformed(text, str(reason)) from None
    path = rest[end:]
    return Url(scheme, host, port, path if path.startswith("/") else "/" + path)


def same_host(header: str, host: Host, port: int, default_port: int) -> bool:
    """Whether a Host header names this very host and port."""
    try:
        return split_authority(header.strip(" \t"), default_port) == (host, port)
    except NotAHost:
        return False


def _malformed(text: str, reason: str) -> Refused:
    return Refused(text, "a URL must have one clear meaning", reason, status=400)
