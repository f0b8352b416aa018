"""Holds: as long as anybody has a layer, in whatever process, it is not removed. A hold ends with its last user."""

from __future__ import annotations

import os
import threading
import time
import weakref
from pathlib import Path

from belljar.packages.lock import try_to_hold, try_to_share

# Of the process and not of a host: a layer is named by its content, and a second host that holds it harms no other.
_holds: weakref.WeakValueDictionary[Path, Hold] = weakref.WeakValueDictionary()
_one_at_a_time = threading.Lock()


class Hold:
    """A shared lock on one file, let go when the object is gone."""

    def __init__(self, place: Path) -> None:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
        weakref.finalize(self, os.close, descriptor)
        while not try_to_share(descriptor):  # somebody is just looking whether it can go
            time.sleep(0.01)
        os.utime(place)


def hold(layer: Path) -> Hold:
    """Keep a layer; the same hold for all of this process."""
    place = _place(layer)
    with _one_at_a_time:
        found = _holds.get(place)
        if found is None:
            found = _holds[place] = Hold(place)
    return found


def last_use(layer: Path) -> float:
    """When somebody last began to use a layer."""
    try:
        return _place(layer).stat().st_mtime
    except OSError:
        return 0.0


def take_away(layer: Path, aside: Path) -> bool:
    """Move a layer that nobody holds; False when somebody does."""
    with open(_place(layer), "a+b") as file:
        if not try_to_hold(file.fileno()):
            return False
        layer.rename(aside)
        return True


def _place(layer: Path) -> Path:
    return layer.with_name(f"{layer.name}.held")
