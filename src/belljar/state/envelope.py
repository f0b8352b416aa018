"""The bytes of a checkpoint: a header and parts, compressed where it pays, and a signature over all of it.

Nothing in them is looked at before the signature was checked, and nothing of a part is ever interpreted here.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from belljar.errors import CheckpointRefused
from belljar.state.keys import ID_BYTES, id_of

MAGIC = b"belljar checkpoint 1\n"
SIGNATURE_BYTES = 32
CHUNK = 6 << 20
_SAMPLE = 1 << 16
_WORTH_IT = 0.9
_LENGTH = struct.Struct(">I")
_PIECE = struct.Struct(">BI")  # whether it is compressed, and how many bytes follow
_NOT_ONE = "this is not a checkpoint of Belljar, or only a part of one"


@dataclass(frozen=True)
class Piece:
    """Bytes of a part; packed ones are unpacked where they are used, never here."""

    is_packed: bool
    data: memoryview


@dataclass(frozen=True)
class Opened:
    """A checkpoint whose signature was right."""

    header: dict[str, Any]
    body: memoryview

    def parts(self) -> Iterator[tuple[dict[str, Any], list[Piece]]]:
        """Each part and its pieces, in order."""
        offset = 0
        for part in self.header["parts"]:
            end = offset + part["stored"]
            yield part, list(self._pieces(offset, end))
            offset = end

    def _pieces(self, offset: int, end: int) -> Iterator[Piece]:
        while offset < end:
            is_packed, size = _PIECE.unpack_from(self.body, offset)
            offset += _PIECE.size
            yield Piece(bool(is_packed), self.body[offset : offset + size])
            offset += size


def seal(
    header: Mapping[str, Any], parts: Iterable[tuple[Mapping[str, Any], list[bytes] | list[bytearray]]], key: bytes
) -> bytes:
    """The whole, signed. Pieces are taken out of their lists one by one, so that a large state is in memory once."""
    rows: list[dict[str, Any]] = []
    body: deque[bytes | bytearray] = deque()
    for part, pieces in parts:
        stored = 0
        pieces.reverse()
        while pieces:
            packed = _packed(pieces.pop())
            body.extend(packed)
            stored += sum(map(len, packed))
        rows.append({**part, "stored": stored})
    text = json.dumps({**header, "parts": rows}).encode("ascii")
    body.extendleft((text, _LENGTH.pack(len(text)), id_of(key), MAGIC))
    whole, signature = io.BytesIO(), hmac.new(key, digestmod=hashlib.sha256)
    while body:
        data = body.popleft()
        signature.update(data)
        whole.write(data)
    whole.write(signature.digest())
    return whole.getvalue()


def unseal(data: bytes, keys: Mapping[bytes, bytes], owner: str) -> Opened:
    """Check the signature, then whose it is, and only then read the header.

    Raises:
        CheckpointRefused: when any of that is not as it must be.
    """
    start = len(MAGIC) + ID_BYTES
    if len(data) < start + _LENGTH.size + SIGNATURE_BYTES or not data.startswith(MAGIC):
        raise CheckpointRefused(_NOT_ONE)
    key = keys.get(bytes(data[len(MAGIC) : start]))
    if key is None:
        raise CheckpointRefused(
            "this checkpoint was signed by an installation that this one does not trust, or was changed; "
            "belljar.state.keys.import_key() takes over the key of the other"
        )
    view = memoryview(data)
    if not hmac.compare_digest(_signature(key, view[:-SIGNATURE_BYTES]), bytes(view[-SIGNATURE_BYTES:])):
        raise CheckpointRefused("this checkpoint was changed or cut off after it was made")
    (length,) = _LENGTH.unpack_from(view, start)
    start += _LENGTH.size
    header = json.loads(bytes(view[start : start + length]))
    if header["owner"] != owner:
        raise CheckpointRefused("this checkpoint belongs to somebody else")
    return Opened(header, view[start + length : -SIGNATURE_BYTES])


def _signature(key: bytes, data: memoryview) -> bytes:
    return hmac.digest(key, data, hashlib.sha256)


def _packed(piece: bytes | bytearray) -> tuple[bytes, bytes | bytearray]:
    """The head of a piece, and the piece; what hardly shrinks is not compressed, as that takes longer than all else."""
    sample = piece[:_SAMPLE]
    if len(zlib.compress(sample, 1)) < _WORTH_IT * len(sample):
        small = zlib.compress(piece, 1)
        return _PIECE.pack(1, len(small)), small
    return _PIECE.pack(0, len(piece)), piece
