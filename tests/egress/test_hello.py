"""The server name of a ClientHello: found in real ones however they are cut, and nothing else is believed."""

from __future__ import annotations

import random
import ssl

import pytest

from belljar.egress.hello import Incomplete, server_name


def hello(name: str | None = "example.test") -> bytes:
    """What the ssl module would send first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def recut(data: bytes, size: int) -> bytes:
    """The same message in records of this size."""
    body = data[5:]
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(data[:3] + len(part).to_bytes(2, "big") + part for part in parts)


def test_the_name_is_found() -> None:
    assert server_name(hello("example.test")) == "example.test"
    assert server_name(hello("example.test") + b"more") == "example.test"


def test_a_hello_may_name_no_server() -> None:
    assert server_name(hello(None)) is None


@pytest.mark.parametrize("size", [20, 50, 200])
def test_the_name_is_found_across_records(size: int) -> None:
    assert server_name(recut(hello(), size)) == "example.test"


def test_a_hello_in_crumbs_is_refused() -> None:
    with pytest.raises(ValueError, match="too many records"):
        server_name(recut(hello(), 1))


def test_every_beginning_of_a_hello_asks_for_more() -> None:
    whole = hello()
    for end in range(len(whole)):
        with pytest.raises(Incomplete):
            server_name(whole[:end])


def test_another_record_inside_the_hello_is_refused() -> None:
    cut = recut(hello(), 100)
    with pytest.raises(ValueError, match="another record"):
        server_name(cut[:105] + b"\x15\x03\x03\x00\x02\x01\x00" + cut[105:])


@pytest.mark.parametrize(
    "data",
    [b"\x16\x02\x00\x00\x05", b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"\x16\x03\x01\x00\x04\x01\x00\x00\x00"],
)  # fmt: skip
def test_what_is_no_hello_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        server_name(data)


def test_two_names_are_refused() -> None:
    whole = hello()
    entry = b"\x00\x00\x0cexample.test"
    extension = b"\x00\x00" + (2 + len(entry)).to_bytes(2, "big") + len(entry).to_bytes(2, "big") + entry
    assert whole.count(extension) == 1
    body = bytearray(whole[5:])
    at = bytes(body).index(extension)
    body[at:at] = extension
    grown = len(extension)
    extensions = 4 + 2 + 32
    extensions += 1 + body[extensions]
    extensions += 2 + int.from_bytes(body[extensions : extensions + 2], "big")
    extensions += 1 + body[extensions]
    size = int.from_bytes(body[extensions : extensions + 2], "big") + grown
    body[extensions : extensions + 2] = size.to_bytes(2, "big")
    body[1:4] = (len(body) - 4).to_bytes(3, "big")
    with pytest.raises(ValueError, match="more than one"):
        server_name(whole[:3] + len(body).to_bytes(2, "big") + bytes(body))


def test_a_damaged_hello_never_does_more_than_be_refused() -> None:
    chance = random.Random(7)
    whole = hello()
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            name = server_name(bytes(damaged))
        except (ValueError, Incomplete):
            continue
        assert name is None or name.isascii()
