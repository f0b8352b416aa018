"""A bound on what is kept of packages: layers and downloads that were not used for longest go first."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

from belljar.packages import holds, remembered
from belljar.packages.bounded import weight
from belljar.packages.lock import try_to_hold
from belljar.packages.modules import FACTS
from belljar.settings import Settings

LOCK = "lock"


def evict(home: Path, settings: Settings, spared: str) -> None:
    """Keep layers, and downloads, below the bound; what somebody uses stays, and so does the one that was just made."""
    most = settings.layers_mb * 1_000_000
    layers = {facts.parent: _size(facts) for facts in home.glob(f"*/{FACTS}")}
    total = sum(layers.values())
    for layer in sorted(layers, key=holds.last_use):
        if total <= most:
            break
        if layer.name != spared and _remove(layer, home):
            total -= layers[layer]
    _bound_wheels(settings.cache_dir / "wasm" / "wheels", most)
    _bound_uv(settings.cache_dir / "uv", most)


def sweep(home: Path) -> None:
    """Remove what a process that was killed left behind; who still works there holds its lock."""
    for left in home.glob(".new-*"):
        try:
            with open(left / LOCK, "r+b") as lock:
                if try_to_hold(lock.fileno()):
                    shutil.rmtree(left, ignore_errors=True)
        except OSError:  # it is only just being made, or was gone already
            continue


def _size(facts: Path) -> int:
    try:
        return int(json.loads(facts.read_text("utf-8"))["size"])
    except (OSError, ValueError, KeyError, TypeError):
        return weight(facts.parent)


def _remove(layer: Path, home: Path) -> bool:
    """Out of sight first, so that nobody ever finds half of it."""
    aside = Path(tempfile.mkdtemp(dir=home, prefix=".new-"))
    try:
        (aside / LOCK).touch()
        if not holds.take_away(layer, aside / layer.name):
            return False
        remembered.forget(home, layer.name)
        return True
    except OSError:  # another process was faster
        return False
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _bound_wheels(store: Path, most: int) -> None:
    wheels = [(path.stat(), path) for path in store.glob("*.whl")]
    total = sum(facts.st_size for facts, _ in wheels)
    for facts, path in sorted(wheels, key=lambda pair: pair[0].st_mtime):
        if total <= most:
            return
        path.unlink(missing_ok=True)
        total -= facts.st_size


def _bound_uv(cache: Path, most: int) -> None:
    """uv's own has no order of use: it starts anew, unless a uv is at work."""
    if not cache.exists() or weight(cache) <= most:
        return
    with contextlib.suppress(OSError), open(cache / ".lock", "ab") as lock:
        if try_to_hold(lock.fileno()):
            for entry in cache.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
