"""Facts kept as JSON files of the cache: written whole or not at all, and looked up again when they cannot be read."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any


def recall(path: Path) -> Any:
    """What was stored there; None when there is nothing that makes sense."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def remember(path: Path, facts: Any) -> None:
    """Store facts for the next process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    fresh.write_text(json.dumps(facts))
    fresh.replace(path)
