"""The bytes of a checkpoint: every one of them is under the signature, and nothing is read before it was checked."""

from __future__ import annotations

import json
import os
import tracemalloc
import zlib

import pytest

from belljar import CheckpointRefused
from belljar.state.envelope import Piece, seal, unseal
from belljar.state.keys import id_of

KEY = bytes(range(32))
KEYS = {id_of(KEY): KEY}
HEADER = {"id": "one", "owner": "ada"}
SPARSE, DENSE = b"a" * 100_000, os.urandom(100_000)


def sealed() -> bytes:
    return seal(
        HEADER, [({"kind": "names"}, [SPARSE, DENSE]), ({"kind": "files"}, []), ({"kind": "names"}, [b"x"])], KEY
    )


def test_parts_come_back_in_order_and_whole():
    opened = unseal(sealed(), KEYS, "ada")
    assert opened.header["id"] == "one"
    assert [(part["kind"], [unpacked(piece) for piece in pieces]) for part, pieces in opened.parts()] == [
        ("names", [SPARSE, DENSE]),
        ("files", []),
        ("names", [b"x"]),
    ]


def unpacked(piece: Piece) -> bytes:
    return zlib.decompress(piece.data) if piece.is_packed else bytes(piece.data)


def test_what_shrinks_is_compressed_and_what_does_not_is_not():
    assert len(DENSE) < len(sealed()) < len(DENSE) + 5_000


def test_every_bit_counts():
    data = seal(HEADER, [({"kind": "names"}, [b"some bytes"])], KEY)
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(CheckpointRefused):
                unseal(bytes(changed), KEYS, "ada")


def test_every_byte_is_needed():
    data = seal(HEADER, [({"kind": "names"}, [b"some bytes"])], KEY)
    for length in range(len(data)):
        with pytest.raises(CheckpointRefused):
            unseal(data[:length], KEYS, "ada")
    with pytest.raises(CheckpointRefused):
        unseal(data + b"\0", KEYS, "ada")


def test_another_key_and_another_owner_are_told_apart():
    other = bytes(32)
    with pytest.raises(CheckpointRefused, match="does not trust"):
        unseal(sealed(), {id_of(other): other}, "ada")
    with pytest.raises(CheckpointRefused, match="changed"):
        unseal(sealed(), {id_of(KEY): other}, "ada")
    for owner in ("", "Ada", "bob"):
        with pytest.raises(CheckpointRefused, match="somebody else"):
            unseal(sealed(), KEYS, owner)


def test_nothing_is_parsed_before_the_signature_was_checked(monkeypatch: pytest.MonkeyPatch):
    changed = bytearray(sealed())
    changed[-1] ^= 1
    monkeypatch.setattr(json, "loads", lambda *_: pytest.fail("the header was read"))
    with pytest.raises(CheckpointRefused, match="changed"):
        unseal(bytes(changed), KEYS, "ada")


def test_the_host_never_unpacks_anything(monkeypatch: pytest.MonkeyPatch):
    data = sealed()
    for name in ("decompress", "decompressobj"):
        monkeypatch.setattr(zlib, name, lambda *_: pytest.fail("the host unpacked a part"))
    (_, pieces), *_ = unseal(data, KEYS, "ada").parts()
    assert [piece.is_packed for piece in pieces] == [True, False]


def test_a_large_state_is_sealed_without_copies_of_the_whole():
    pieces = [bytearray(os.urandom(1 << 20)) for _ in range(48)]
    tracemalloc.start()
    try:
        pieces = [bytearray(piece) for piece in pieces]
        data = seal(HEADER, [({"kind": "files"}, pieces)], KEY)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * len(data)
    assert unseal(data, KEYS, "ada").header["parts"][0]["stored"] > 48 << 20
