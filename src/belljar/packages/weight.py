"""How much a folder weighs, also while somebody still writes to it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def weight(folder: Path) -> int:
    """The bytes of all files beneath a folder."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total
