"""One entry of a workspace, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EntryType = Literal["file", "directory", "symlink", "other"]


@dataclass(frozen=True)
class Entry:
    """One entry of the workspace. `path` is relative to it; undecodable bytes in names are surrogate-escaped."""

    path: str
    type: EntryType
    size: int
    modified: float


Listing = list[Entry]
