"""`configure`, the first Request of every kernel: what it starts with, and how long it may take."""

from __future__ import annotations

import asyncio
import reprlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from belljar.engines import exits
from belljar.engines.base import Event, KernelExited, Spec
from belljar.errors import StartFailed
from belljar.limits import Limits
from belljar_kernel.protocol import HOME, RESULTS_BYTES, TMP

CONFIGURE_TIMEOUT_S = 60.0  # rehearsals and slow machines included
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


async def see_configured(answer: Awaitable[Event], kill: Callable[[], Awaitable[None]], limits: Limits) -> None:
    """Wait until a kernel has answered `configure`. One that takes too long is ended with `kill`.

    Raises:
        StartFailed: when it took too long, failed, or ended first.
    """
    try:
        async with asyncio.timeout(CONFIGURE_TIMEOUT_S):
            done = await answer
    except TimeoutError:
        await kill()
        raise StartFailed(
            f"the sandbox's Python did not take its configuration within {CONFIGURE_TIMEOUT_S:g} s, and was ended; "
            "is the machine overloaded? Try again, or make a new sandbox"
        ) from None
    except KernelExited as ended:
        raise exits.in_set_up(ended.exit, limits) from None
    if (error := done.get("error")) is not None:
        await kill()
        said = error.get("value") if isinstance(error, dict) else error
        text = said[:500] if isinstance(said, str) else reprlib.repr(said)
        raise StartFailed(f"the sandbox's Python did not take its configuration: {text}. Make a new sandbox")
