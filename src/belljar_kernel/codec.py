"""JSON as the protocol writes it: ASCII escapes, no NaN. Bound at import: code that patches `json` has no effect."""

from __future__ import annotations

from json import JSONDecoder
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _refuse(document: object) -> Any:
    raise TypeError(f"{type(document).__name__} is not JSON data")


# What JSONEncoder makes anew for each document: that takes longer than a small one.
_pieces: Callable[[object, int], tuple[str, ...]] = c_make_encoder(
    None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False
)
_scan: Callable[[str, int], tuple[Any, int]] = vars(JSONDecoder())["scan_once"]


def encode(document: object) -> bytes:
    """The document as bytes.

    Raises:
        ValueError, TypeError, RecursionError: when it is not plain JSON data.
    """
    return "".join(_pieces(document, 0)).encode("ascii")


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
