"""How much a sandbox may use. Values only; engines enforce them or refuse."""

from __future__ import annotations

from dataclasses import dataclass, fields

from belljar.errors import InvalidRequest

BOUNDS: dict[str, tuple[float, float]] = {
    "timeout_s": (0.05, 300),
    "memory_mb": (64, 1 << 20),
    "cpus": (0.05, 1024),
    "processes": (1, 32768),
    "disk_mb": (1, 1 << 20),
    "output_mb": (0.001, 1024),
}
_FRACTIONS = {"timeout_s", "cpus", "output_mb"}


@dataclass(frozen=True)
class Limits:
    """Time, memory, cpu, processes, disk and output of one sandbox.

    `timeout_s` counts the code only, not the start. `/workspace`, `/tmp` and HOME share `disk_mb`.
    """

    timeout_s: float = 30
    memory_mb: int = 512
    cpus: float = 1.0
    processes: int = 64
    disk_mb: int = 256
    output_mb: float = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            check(field.name, getattr(self, field.name))


def check(name: str, value: object) -> float:
    """The limit, if it is a number within its bounds.

    Raises:
        InvalidRequest: naming the limit, the value and the bounds.
    """
    low, high = BOUNDS[name]
    numbers = (int, float) if name in _FRACTIONS else (int,)
    kind = "a number" if name in _FRACTIONS else "a whole number"
    if isinstance(value, bool) or not isinstance(value, numbers):
        raise InvalidRequest(f"{name} must be {kind} from {low:g} to {high:g}, not {value!r}")
    if not low <= value <= high:  # NaN is neither
        raise InvalidRequest(f"{name} must be from {low:g} to {high:g}, not {value!r}")
    return value
