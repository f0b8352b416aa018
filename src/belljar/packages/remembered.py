"""Which layer a request came to: for a day as it is, and for good when the index cannot be reached."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from belljar.settings import Settings

FRESH_S = 86_400.0


def key(ground: str, environment: str, asked: Sequence[str]) -> str:
    """A name for a request: what was asked for, on top of what."""
    return hashlib.sha256("\0".join([ground, environment, *sorted(asked)]).encode()).hexdigest()[:24]


def recall(home: Path, key: str, settings: Settings | None) -> str | None:
    """The layer, or "" when nothing had to be added; None when that is not known, or too old or of another index.

    Without settings, anything that is there will do.
    """
    try:
        facts = json.loads(_place(home, key).read_text("utf-8"))
        layer, at, source = str(facts["layer"]), float(facts["at"]), str(facts["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if layer and not (home / layer / "layer.json").exists():
        return None
    if settings is None:
        return layer
    return layer if source == _source(settings) and 0 <= time.time() - at < FRESH_S else None


def remember(home: Path, key: str, layer: str, settings: Settings) -> None:
    """Keep it for later processes."""
    facts = {"layer": layer, "at": time.time(), "source": _source(settings)}
    place = _place(home, key)
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor, fresh = tempfile.mkstemp(dir=place.parent)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(facts, file)
    os.replace(fresh, place)


def forget(home: Path, layer: str) -> None:
    """Every request that came to a layer which is gone."""
    for place in (home / "requests").glob("*.json"):
        try:
            if json.loads(place.read_text("utf-8"))["layer"] == layer:
                place.unlink(missing_ok=True)
        except (OSError, ValueError, KeyError, TypeError):
            continue


def _place(home: Path, key: str) -> Path:
    return home / "requests" / f"{key}.json"


def _source(settings: Settings) -> str:
    """Whom was asked, without writing it down: an address may carry a password."""
    asked = [f"{name}={value}" for name, value in sorted(os.environ.items()) if _is_about_sources(name)]
    return hashlib.sha256("\0".join([str(settings.wheelhouse), *asked]).encode()).hexdigest()[:16]


def _is_about_sources(name: str) -> bool:
    return name.startswith(("PIP_", "UV_")) and ("INDEX" in name or "FIND_LINKS" in name)
