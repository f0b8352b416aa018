"""What a sandbox may touch. Values only; engines and the packages layer enforce them or refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Literal

from belljar.errors import InvalidRequest


@dataclass(frozen=True)
class Policy:
    """Network hosts, packages and read-only host folders that a sandbox may use.

    `packages="auto"` has the preinstalled set, and installs what else is asked for or imported; a list is the same for
    those that it names; `"none"` is Python alone.
    """

    network: Sequence[str] = ()
    packages: Literal["auto", "none"] | Sequence[str] = "auto"
    mounts: Mapping[str, str | PathLike[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _is_list_of_texts(self.network):
            raise InvalidRequest(f"network must be a list of host names, not {self.network!r}")
        if self.packages not in ("auto", "none") and not _is_list_of_texts(self.packages):
            raise InvalidRequest(f'packages must be "auto", "none" or a list of names, not {self.packages!r}')
        if not _is_mapping_of_folders(self.mounts):
            raise InvalidRequest(f"mounts must map paths inside to folders of this machine, not {self.mounts!r}")
        # Plain values, so that equal policies are equal however they were written.
        object.__setattr__(self, "network", tuple(self.network))
        if not isinstance(self.packages, str):
            object.__setattr__(self, "packages", tuple(self.packages))
        object.__setattr__(self, "mounts", {place: fspath(folder) for place, folder in self.mounts.items()})


def _is_list_of_texts(given: object) -> bool:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return False
    return all(isinstance(item, str) for item in given)


def _is_mapping_of_folders(given: object) -> bool:
    if not isinstance(given, Mapping) or not _is_list_of_texts([*given]):
        return False
    folders = given.values()
    return all(isinstance(folder, str | PathLike) and isinstance(fspath(folder), str) for folder in folders)
