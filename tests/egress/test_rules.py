"""The allow-list: what each entry allows, what it does not, and which entries are refused themselves."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from belljar import InvalidRequest
from belljar.egress.addresses import special
from belljar.egress.hosts import canonical
from belljar.egress.refusals import Refused
from belljar.egress.rules import Rules


def allows(network: list[str] | None, host: str, port: int = 443) -> bool:
    try:
        Rules.parse(network).check(canonical(host), port)
    except Refused:
        return False
    return True


@pytest.mark.parametrize("network", [None, [], ()])
def test_without_entries_everything_is_refused(network: list[str] | None) -> None:
    with pytest.raises(Refused, match="network is off"):
        Rules.parse(network).check("example.test", 443)


@pytest.mark.parametrize("host", ["example.test", "EXAMPLE.TEST", "example.test.", "%65xample.test"])
def test_a_name_allows_itself_in_any_spelling_on_the_ports_of_the_web(host: str) -> None:
    assert allows(["example.test"], host, 80)
    assert allows(["example.test"], host, 443)
    assert not allows(["example.test"], host, 8080)
    assert not allows(["example.test"], host, 22)


@pytest.mark.parametrize(
    "host",
    ["evilexample.test", "example.test.evil", "sub.example.test", "test", "example", "example-test", "xample.test"],
)
def test_a_name_allows_no_name_that_looks_like_it(host: str) -> None:
    assert not allows(["example.test"], host)


def test_a_star_allows_sub_domains_only() -> None:
    assert allows(["*.example.test"], "a.example.test")
    assert allows(["*.example.test"], "a.b.Example.test")
    assert not allows(["*.example.test"], "example.test")
    assert not allows(["*.example.test"], "evilexample.test")
    assert not allows(["*.example.test"], "a.example.test", 8080)
    assert allows(["*.example.test:8080"], "a.example.test", 8080)


def test_a_port_allows_itself_only() -> None:
    assert allows(["example.test:8080"], "example.test", 8080)
    assert not allows(["example.test:8080"], "example.test", 443)


def test_a_scheme_allows_its_own_port() -> None:
    assert allows(["https://example.test"], "example.test", 443)
    assert allows(["https://example.test/"], "example.test", 443)
    assert not allows(["https://example.test"], "example.test", 80)
    assert allows(["http://example.test"], "example.test", 80)
    assert allows(["https://example.test:8443"], "example.test", 8443)


def test_addresses_and_networks_allow_addresses_only() -> None:
    assert allows(["10.1.0.0/16"], "10.1.2.3")
    assert allows(["10.1.0.0/16"], "0x0a010203")
    assert not allows(["10.1.0.0/16"], "10.2.0.1")
    assert allows(["127.0.0.1:8080"], "2130706433", 8080)
    assert allows(["[::1]:8080"], "::1", 8080)
    assert allows(["fd00::/8"], "fd00::5")
    assert allows(["[fd00::/8]:5432"], "fd00::5", 5432)
    assert allows(["192.0.2.1"], "::ffff:192.0.2.1")
    assert not allows(["10.1.0.0/16"], "example.test")


def test_international_names_are_the_same_in_both_spellings() -> None:
    assert allows(["bücher.example"], "xn--bcher-kva.example")
    assert allows(["xn--bcher-kva.example"], "BÜCHER.example")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("", "empty"),
        ("*", "star"),
        ("*.", "empty"),
        ("a.*.test", "star"),
        ("*example.test", "star"),
        ("*.10.0.0.1", "sub-domains"),
        ("ftp://example.test", "http"),
        ("https://example.test/path", "path"),
        ("user@example.test", "user"),
        ("example.test:0", "port"),
        ("example.test:99999", "port"),
        ("example.test:http", "port"),
        ("example.test:*", "port"),
        ("example..test", "empty label"),
        ("exa mple.test", "character"),
        ("example.test\n", "character"),
        ("2130706433", "write the address as 127.0.0.1"),
        ("010.0.0.1", "write the address as 8.0.0.1"),
        ("10.0.0.1/8", "host bits"),
        ("0.0.0.0/0", "wide"),
        ("::/0", "wide"),
        ("::ffff:10.0.0.0/104", "IPv4 network"),
        ("fe80::1%eth0", "zones"),
        ("[10.0.0.1]:80", "brackets"),
        ("[::1", "brackets"),
    ],
)
def test_an_entry_without_a_clear_meaning_is_refused_with_the_reason(entry: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        Rules.parse([entry])


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"), ("127.255.0.1", "loopback"), ("0.0.0.0", "unspecified"), ("10.0.0.1", "private"),
        ("172.31.255.255", "private"), ("192.168.0.1", "private"), ("100.64.0.1", "carrier-grade NAT"),
        ("169.254.1.1", "link-local"), ("169.254.169.254", "cloud metadata"), ("168.63.129.16", "cloud metadata"),
        ("100.100.100.200", "cloud metadata"), ("192.0.2.1", "reserved"), ("198.18.0.1", "reserved"),
        ("224.0.0.1", "multicast"), ("240.0.0.1", "reserved"), ("255.255.255.255", "reserved"),
        ("::", "unspecified"), ("::1", "loopback"), ("fe80::1", "link-local"), ("fd00::1", "private"),
        ("fd00:ec2::254", "cloud metadata"), ("ff02::1", "multicast"), ("2001:db8::1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"), ("::ffff:169.254.169.254", "cloud metadata"), ("::127.0.0.1", "reserved"),
        ("64:ff9b::7f00:1", "loopback"), ("64:ff9b::a9fe:a9fe", "cloud metadata"), ("64:ff9b:1::1", "reserved"),
        ("2002:7f00:1::", "loopback"), ("2002:a9fe:a9fe::1", "cloud metadata"), ("2001:0:1::1", "reserved"),
        ("fec0::1", "private"), ("4000::1", "reserved"), ("::ffff:0:127.0.0.1", "reserved"),
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_known(address: str, kind: str) -> None:
    assert special(ip_address(address)) == kind


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::1"])
def test_public_addresses_are_ordinary(address: str) -> None:
    assert special(ip_address(address)) is None


def test_a_name_may_lead_to_a_private_address_that_is_listed_for_its_port() -> None:
    rules = Rules.parse(["db.test:5432", "10.0.0.5:5432"])
    inside, other = ip_address("10.0.0.5"), ip_address("10.0.0.6")
    assert rules.vet("db.test", 5432, [other, inside]) == [inside]
    with pytest.raises(Refused, match=r"10\.0\.0\.6 \(private\)"):
        rules.vet("db.test", 5432, [other])
    with pytest.raises(Refused, match="not public"):
        rules.vet("db.test", 80, [inside])


def test_a_refusal_says_what_is_allowed() -> None:
    rules = Rules.parse(["example.test", "*.example.org:8080", "10.0.0.0/8", "[::1]:80"])
    with pytest.raises(Refused) as refused:
        rules.check("evil.test", 443)
    denial = refused.value.denial()
    assert (denial.kind, denial.target, denial.rule) == ("network", "evil.test:443", "host is not in Policy.network")
    assert denial.hint == "allowed: example.test, *.example.org:8080, 10.0.0.0/8, [::1]:80"
