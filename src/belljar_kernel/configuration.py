"""The `configure` Request: environment, import path, memory limit, cap of results, and warming up."""

from __future__ import annotations

import os
import sys

from belljar_kernel.execute import Session

try:
    import resource
except ImportError:
    HAS_LIMITS = False  # the engine has its own. Found out once: in WebAssembly, the search takes 30 ms
else:
    HAS_LIMITS = True

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from belljar_kernel.kernel import Kernel

MOST_REHEARSALS = 100
_TABLE = """
import pandas
table = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 1.5], "c": ["x", "y", "z"]}).describe()
{shown}
"""


def configure(kernel: Kernel, request: dict[str, Any]) -> dict[str, Any]:
    """Do what the Request asks; what it does not name stays."""
    kernel.surroundings.configure(request.get("env"), request.get("path") or ())
    if type(request.get("results_bytes")) is int:
        kernel.results_bytes = max(0, request["results_bytes"])
    if type(request.get("network")) is list:
        kernel.denials.hosts = request["network"]
    if "data_bytes" in request:
        _limit_data(request["data_bytes"])
    for _ in range(min(int(request.get("warm") or 0), MOST_REHEARSALS)):
        rehearse(kernel)
    return {}


def _limit_data(data_bytes: int | None) -> None:
    if not HAS_LIMITS:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = hard if data_bytes is None else _mapped_now() + data_bytes
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _mapped_now() -> int:
    try:
        file = os.open("/proc/self/status", os.O_RDONLY)
    except OSError:
        pass
    else:
        found = os.read(file, 1 << 16).partition(b"VmData:")[2].split(None, 1)
        os.close(file)
        if found:
            return int(found[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rehearse(kernel: Kernel, shown: str = "table") -> None:
    """Run what a first run is likely to be, in a namespace that is thrown away: the real one finds all ready."""
    own, kernel.session = kernel.session, Session()
    code = _TABLE.replace("{shown}", shown) if "pandas" in sys.modules else "1 + 1"
    try:
        kernel.handle({"type": "run", "id": 0, "count": 1, "code": code}, lambda _: None)
    finally:
        kernel.session = own
