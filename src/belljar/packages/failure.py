"""Why packages could not be installed, told apart so that the next thing to try is known."""

from __future__ import annotations

from typing import Literal

from belljar.errors import PackageError

Kind = Literal["missing", "no_build", "conflict", "unreachable", "too_large", "too_slow", "refused", "unknown"]


WITHOUT_INDEX = "this machine does not have it, and the package index could not be reached a moment ago"


class InstallFailed(PackageError):
    """An installation that did not come about; `kind` says in one word why."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind
