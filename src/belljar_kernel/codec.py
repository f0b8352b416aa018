"""JSON as the protocol writes it: ASCII escapes, no NaN. Bound at import: code that patches `json` has no effect."""

from __future__ import annotations

from json import JSONDecoder, JSONEncoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Encoder(JSONEncoder):
    encode = JSONEncoder.encode
    iterencode = JSONEncoder.iterencode


_ENCODER = _Encoder(allow_nan=False, separators=(",", ":"))
_scan: Callable[[str, int], tuple[Any, int]] = vars(JSONDecoder())["scan_once"]


def encode(document: object) -> bytes:
    """The document as bytes.

    Raises:
        ValueError, TypeError, RecursionError: when it is not plain JSON data.
    """
    return _ENCODER.encode(document).encode("ascii")


def decode(frame: bytes) -> Any:
    """The document in a frame.

    Raises:
        ValueError: when the frame is not JSON.
    """
    try:
        document, _ = _scan(frame.decode("utf-8"), 0)
    except StopIteration:
        raise ValueError("the frame is not JSON") from None
    return document
