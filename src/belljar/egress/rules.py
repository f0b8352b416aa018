"""The allow-list of one sandbox, parsed from `Policy.network`: hosts, ports, and the addresses they may lead to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_network

from belljar.egress.addresses import special
from belljar.egress.hosts import Address, Host, NotAHost, authority, canonical, port_number
from belljar.egress.refusals import Refused
from belljar.errors import InvalidRequest
from belljar_kernel.denials import NO_HOSTS, OFF

WEB_PORTS = frozenset({80, 443})
_SCHEMES = {"http": 80, "https": 443}
_WIDEST_V4, _WIDEST_V6 = 8, 7
_SHOWN = 12


@dataclass(frozen=True)
class Rule:
    """One entry of the list: a name, all names below one, or a network of addresses; with its ports."""

    text: str
    host: str | IPv4Network | IPv6Network
    ports: frozenset[int] = WEB_PORTS
    below: bool = False

    def covers(self, host: Host) -> bool:
        """Whether the rule speaks of this host, on whatever port. Whole labels are compared, never parts of them."""
        if isinstance(self.host, str):
            return isinstance(host, str) and (host.endswith("." + self.host) if self.below else host == self.host)
        return not isinstance(host, str) and host in self.host


class Rules:
    """What one sandbox may reach. Without a rule it may reach nothing."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, network: Iterable[str] | None) -> Rules:
        """The rules that `Policy.network` spells.

        Raises:
            InvalidRequest: for an entry that has no clear meaning, with the reason.
        """
        return cls([parse_rule(text) for text in network or ()])

    def __str__(self) -> str:
        if not self._rules:
            return "nothing is allowed, the list of hosts is empty"
        more = f" and {len(self._rules) - _SHOWN} more" if len(self._rules) > _SHOWN else ""
        return "allowed: " + ", ".join(_shown(rule) for rule in self._rules[:_SHOWN]) + more

    def check(self, host: Host, port: int) -> None:
        """Look at a target before anything is asked about it.

        Raises:
            Refused: when no rule allows it.
        """
        target = authority(host, port)
        if not self._rules:
            raise Refused(target, OFF, NO_HOSTS)
        covering = [rule for rule in self._rules if rule.covers(host)]
        if not covering:
            raise Refused(target, "host is not in Policy.network", str(self))
        if not any(port in rule.ports for rule in covering):
            raise Refused(target, f"port {port} of this host is not in Policy.network", str(self))

    def vet(self, host: Host, port: int, addresses: Iterable[Address]) -> list[Address]:
        """The addresses of an allowed target that may be connected to: public ones, and those that are listed.

        Raises:
            Refused: when none is left.
        """
        kinds = {address: special(address) for address in addresses}
        vetted = [address for address, kind in kinds.items() if kind is None or self._lists(address, port)]
        if not vetted:
            seen = ", ".join(f"{address} ({kind})" for address, kind in list(kinds.items())[:4])
            raise Refused(
                authority(host, port),
                f"addresses that are not public are refused: {seen}",
                "list the address itself in Policy.network to allow it",
            )
        return vetted

    def _lists(self, address: Address, port: int) -> bool:
        return any(rule.covers(address) and port in rule.ports for rule in self._rules)


def parse_rule(text: str) -> Rule:
    """One entry: `host`, `*.host`, an address or a network, with an optional port; or `https://host`.

    Raises:
        InvalidRequest: with the reason.
    """
    try:
        return _parsed(text)
    except (NotAHost, ValueError) as reason:
        raise InvalidRequest(f"network: {text!r} is not a host to allow: {reason}") from None


def _parsed(text: str) -> Rule:
    scheme, slashes, rest = text.rpartition("://")
    if slashes and scheme.lower() not in _SCHEMES:
        raise NotAHost("only http:// and https:// may stand in front of a host")
    bare, port = _split_port(rest.removesuffix("/") if slashes else rest)
    default = frozenset({_SCHEMES[scheme.lower()]}) if slashes else WEB_PORTS
    ports = frozenset({port_number(port)}) if port is not None else default
    if "@" in bare:
        raise NotAHost("user information in front of a host is not allowed")
    if bare.startswith("*."):
        above = canonical(bare[2:])
        if not isinstance(above, str):
            raise NotAHost("an address has no sub-domains; a network is written like 10.1.0.0/16")
        return Rule(text, above, ports, below=True)
    if "*" in bare:
        raise NotAHost("a star stands only in front, for all sub-domains: *.example.com")
    if "/" in bare:
        if slashes:
            raise NotAHost("paths cannot be allowed one by one; leave the path out")
        return Rule(text, _network(bare), ports)
    host = canonical(bare)
    if isinstance(host, str):
        return Rule(text, host, ports)
    if isinstance(host, IPv4Address) and bare != str(host):
        raise NotAHost(f"write the address as {host}")
    return Rule(text, ip_network(host), ports)


def _split_port(text: str) -> tuple[str, str | None]:
    """What stands in front of the port, without brackets, and the port's text."""
    if text.startswith("["):
        inside, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise NotAHost("brackets do not match")
        if ":" not in inside:
            raise NotAHost("only IPv6 addresses have brackets")
        return inside, rest[1:] if rest else None
    if text.count(":") != 1:
        return text, None
    bare, _, port = text.partition(":")
    return bare, port


def _network(text: str) -> IPv4Network | IPv6Network:
    network = ip_network(text)
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise NotAHost("write it as the IPv4 network that it stands for")
    if network.prefixlen < (_WIDEST_V4 if network.version == 4 else _WIDEST_V6):
        raise NotAHost("a network this wide would list every private address too; name the hosts")
    return network


def _shown(rule: Rule) -> str:
    host = rule.host
    if not isinstance(host, str) and host.num_addresses == 1:
        host = str(host.network_address)
    bare = f"*.{host}" if rule.below else str(host)
    if rule.ports == WEB_PORTS:
        return bare
    (port,) = rule.ports
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
