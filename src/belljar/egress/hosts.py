"""Hosts in one spelling: names as lower-case ASCII labels, addresses as addresses. What is not clear is refused."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote_to_bytes

import idna

Address = IPv4Address | IPv6Address
Host = str | Address

_LONGEST = 253
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_PORT = re.compile(r"[0-9]{1,5}")


class NotAHost(ValueError):
    """The text does not name exactly one host."""


def canonical(text: str) -> Host:
    """The one spelling of a host: no case, dots, encodings or number systems to hide behind.

    Raises:
        NotAHost: with the reason.
    """
    if not text:
        raise NotAHost("the host is empty")
    if len(text) > 4 * _LONGEST:
        raise NotAHost("the host is too long")
    if text.startswith("[") or text.endswith("]"):
        if not (text.startswith("[") and text.endswith("]")):
            raise NotAHost("brackets do not match")
        return _ipv6(text[1:-1])
    if ":" in text:
        return _ipv6(text)
    name = _ascii(_decoded(text)).lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(labels)
    if len(name) > _LONGEST:
        raise NotAHost("the host is too long")
    if "" in labels:
        raise NotAHost("the host has an empty label")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise NotAHost("the host has a character that no host name has")
    return name


def split_authority(text: str, default_port: int | None) -> tuple[Host, int]:
    """Host and port of `host`, `host:port`, `[address]` or `[address]:port`.

    Raises:
        NotAHost: also for user information, and for a missing port where there is no default.
    """
    if "@" in text:
        raise NotAHost("user information in front of a host is not allowed")
    if text.startswith("["):
        bracketed, closing, rest = text.partition("]")
        host, colon, port = bracketed + closing, rest[:1], rest[1:]
        if rest and colon != ":":
            raise NotAHost("there is something behind the brackets that is no port")
    else:
        host, colon, port = text.partition(":")
    if not colon and default_port is not None:
        return canonical(host), default_port
    return canonical(host), port_number(port)


def port_number(text: str) -> int:
    """A port from 1 to 65535, in plain digits."""
    if not _PORT.fullmatch(text) or not 0 < int(text) < 65536:
        raise NotAHost(f"{text[:20]!r} is not a port")
    return int(text)


def authority(host: Host, port: int) -> str:
    """Host and port as one text, with brackets where they are needed."""
    return f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"


def unmapped(address: Address) -> Address:
    """The IPv4 address that an IPv4-mapped IPv6 address stands for; any other address as it is."""
    return getattr(address, "ipv4_mapped", None) or address


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise NotAHost("the host's percent-encoding is not text") from None


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise NotAHost("the host is not a valid international name") from None


def _ipv4(parts: list[str]) -> IPv4Address:
    """An address in any spelling that C libraries take: decimal, octal, hexadecimal, with fewer than four parts."""
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise NotAHost("the host ends in a number and is not an IPv4 address")
    try:
        *front, last = [_number(part) for part in parts]
    except ValueError:
        raise NotAHost("a part of the IPv4 address is not a number") from None
    if any(part > 255 for part in front) or last >= 256 ** (4 - len(front)):
        raise NotAHost("a part of the IPv4 address is too large")
    return IPv4Address(sum(part << (24 - 8 * place) for place, part in enumerate(front)) + last)


def _number(part: str) -> int:
    if len(part) > 20:
        raise ValueError(part)
    if part[:2] in ("0x", "0X"):
        return int(part[2:], 16)
    return int(part, 8) if part.startswith("0") and part != "0" else int(part)


def _ipv6(text: str) -> Address:
    if "%" in text:
        raise NotAHost("IPv6 zones are not allowed")
    try:
        return unmapped(IPv6Address(text))
    except ValueError:
        raise NotAHost("the host is not an IPv6 address") from None
