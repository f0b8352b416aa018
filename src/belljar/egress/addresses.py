"""Addresses that a name may not lead to: the machine itself, its networks, and the services of its cloud."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from belljar.egress.hosts import Address

# Own tables: what the standard library calls global has changed between Python's versions.
_SPECIAL_V4 = [
    (IPv4Network(text), kind)
    for text, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_SPECIAL_V6 = [
    (IPv6Network(text), kind)
    for text, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    )
]
_GLOBAL_V6 = ip_network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")

# Where clouds answer with credentials or settings; some of them are in ranges that are public otherwise.
_METADATA = {
    ip_address(text)
    for text in (
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "192.0.0.192",
        "fd00:42::42",
        "fd00:ec2::23",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
    )
}


def special(address: Address) -> str | None:
    """Why an address is not an ordinary public one; None when it is."""
    if address in _METADATA:
        return "cloud metadata"
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_V4 if address in network), None)
    inner = _carried(address)
    if inner is not None:
        return special(inner)
    kind = next((kind for network, kind in _SPECIAL_V6 if address in network), None)
    return kind or (None if address in _GLOBAL_V6 else "reserved")


def _carried(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets for this one end up at."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return IPv4Address(int(address) >> 80 & 0xFFFFFFFF) if address in _SIX_TO_FOUR else None
