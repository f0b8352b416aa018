"""The first Request of every kernel: what it starts with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belljar.engines.base import Spec
from belljar_kernel.protocol import HOME, RESULTS_BYTES, TMP

DATA_SHARE = 0.9  # of the memory limit: a MemoryError that keeps the state comes before the kill that does not
# What every sandbox of every engine starts with; none is the host's.
VARIABLES = {
    "HOME": HOME, "USER": "sandbox", "LOGNAME": "sandbox", "LANG": "C.UTF-8", "TMPDIR": TMP,
    "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip


def configuration(spec: Spec, variables: Mapping[str, str], rehearsals: int = 0) -> dict[str, Any]:
    """The `configure` Request of a sandbox. `variables` are those that every sandbox of its kind starts with."""
    return {
        "type": "configure",
        "env": {**variables, **spec.env},
        "path": spec.environment.path,
        "data_bytes": int(spec.limits.memory_mb * (1 << 20) * DATA_SHARE),
        "results_bytes": RESULTS_BYTES,
        "network": list(spec.policy.network),
        "warm": rehearsals,
    }
