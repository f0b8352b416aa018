"""Hosts have one spelling, whatever a guest writes."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from belljar.egress.hosts import NotAHost, authority, canonical, split_authority


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("example.test", "example.test"),
        ("EXAMPLE.Test", "example.test"),
        ("example.test.", "example.test"),
        ("%65xample.test", "example.test"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("b%C3%BCcher.example", "xn--bcher-kva.example"),
        ("example。test", "example.test"),
        ("ｅｘａｍｐｌｅ.test", "example.test"),
        ("_dmarc.example.test", "_dmarc.example.test"),
        ("localhost", "localhost"),
        ("1.example", "1.example"),
    ],
)
def test_a_name_has_one_spelling(written: str, meant: str) -> None:
    assert canonical(written) == meant


@pytest.mark.parametrize(
    "written",
    ["127.0.0.1", "2130706433", "0177.0.0.1", "0x7f000001", "0x7f.1", "127.1", "127.0.1", "127.0.0.01", "127.0.0.1.",
     "017700000001", "0X7F.0.0.1", "１２７.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "[::ffff:127.0.0.1]",
     "[::ffff:7f00:1]", "::FFFF:127.0.0.1"],
)  # fmt: skip
def test_loopback_is_seen_in_every_spelling(written: str) -> None:
    assert canonical(written) == ip_address("127.0.0.1")


@pytest.mark.parametrize(
    "written", ["169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"]
)
def test_the_metadata_address_is_seen_in_every_spelling(written: str) -> None:
    assert canonical(written) == ip_address("169.254.169.254")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", "empty"),
        (".", "empty label"),
        ("example..test", "empty label"),
        (".example.test", "empty label"),
        ("example.test..", "empty label"),
        ("exa mple.test", "character"),
        ("example.test\n", "character"),
        ("example.test\x00", "character"),
        ("example.test%00", "character"),
        ("example.test%0d%0aevil", "character"),
        ("example.test%2f", "character"),
        ("example.test%3A80", "character"),
        ("%2565xample.test", "character"),
        ("example%.test", "character"),
        ("%ff.test", "percent-encoding"),
        ("user@example.test", "character"),
        ("example.test/", "character"),
        ("example.test\\evil", "character"),
        ("-example.test", "character"),
        ("a" * 64 + ".test", "character"),
        (".".join(["a" * 60] * 5), "too long"),
        ("a" * 2000, "too long"),
        ("xn--\u2028.test", "international"),
        ("1.2.3.4.5", "IPv4"),
        ("256.0.0.1", "too large"),
        ("1.2.3.256", "too large"),
        ("4294967296", "too large"),
        ("09.1.1.1", "not a number"),
        ("0x.1", "not a number"),
        ("9" * 30, "not a number"),
        ("example.1", "IPv4"),
        ("[fe80::1%eth0]", "zones"),
        ("[fe80::1%25eth0]", "zones"),
        ("fe80::1%1", "zones"),
        ("[::1", "brackets"),
        ("::1]", "brackets"),
        ("[example.test]", "IPv6"),
        ("[127.0.0.1]", "IPv6"),
        ("1:2", "IPv6"),
    ],
)
def test_what_is_not_one_clear_host_is_refused(written: str, reason: str) -> None:
    with pytest.raises(NotAHost, match=reason):
        canonical(written)


def test_authorities_are_split_at_the_port() -> None:
    assert split_authority("Example.test:8080", None) == ("example.test", 8080)
    assert split_authority("example.test", 80) == ("example.test", 80)
    assert split_authority("[2001:DB8::1]:443", None) == (ip_address("2001:db8::1"), 443)
    assert split_authority("[::1]", 80) == (ip_address("::1"), 80)
    assert authority(ip_address("::1"), 80) == "[::1]:80"


@pytest.mark.parametrize(
    "written",
    ["example.test", "example.test:", "example.test:0", "example.test:65536", "example.test:+80", "example.test: 80",
     "example.test:８０", "example.test:80:80", "a@example.test:80", "[::1]80", "::1:80", ":80"],
)  # fmt: skip
def test_authorities_without_one_clear_port_are_refused(written: str) -> None:
    with pytest.raises(NotAHost):
        split_authority(written, None)
