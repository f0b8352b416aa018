"""What a sandbox may touch. Values only; engines and the packages layer enforce them or refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from belljar.errors import InvalidRequest


@dataclass(frozen=True)
class Policy:
    """Network hosts, packages and read-only host folders that a sandbox may use.

    `packages="auto"` has the preinstalled set; `"none"` is Python alone; a list names what may be installed.
    """

    network: Sequence[str] = ()
    packages: Literal["auto", "none"] | Sequence[str] = "auto"
    mounts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.network, str) or not all(isinstance(host, str) for host in self.network):
            raise InvalidRequest(f"network must be a list of host names, not {self.network!r}")
        if isinstance(self.packages, str) and self.packages not in ("auto", "none"):
            raise InvalidRequest(f'packages must be "auto", "none" or a list of names, not {self.packages!r}')
