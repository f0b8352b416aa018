"""Where an engine is known to differ: the name of the case, and why. `docs/limitations/` tells users the same."""

from __future__ import annotations

DIFFERENCES: dict[str, dict[str, str]] = {"native": {}}
