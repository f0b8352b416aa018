"""Makes a fresh fork of a zygote its own: what was drawn before the fork is drawn again in none of its children."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STATE_BYTES = 2496  # of a Mersenne Twister: 624 words


def after_fork() -> None:
    """Give this process its own randomness and names, in the modules that are loaded."""
    modules: dict[str, Any] = sys.modules  # not a copy: that would touch, and so unshare, every module's page
    if "random" in modules:
        modules["random"].seed()
    if "numpy.random" in modules:
        _reseed(modules["numpy"])
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
    if "uuid" in modules:
        modules["uuid"]._last_timestamp = None
        modules["uuid"]._node = None


def _reseed(numpy: Any) -> None:
    """A state straight from the system: `seed()` would mix less of it, and touch twice as many pages."""
    words = numpy.frombuffer(os.urandom(_STATE_BYTES), numpy.uint32)
    numpy.random.set_state(("MT19937", words, len(words)))
