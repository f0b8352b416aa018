"""Why packages could not be installed, told apart so that the next thing to try is known."""

from __future__ import annotations

from typing import Literal

from belljar.errors import PackageError

Kind = Literal["missing", "no_build", "conflict", "unreachable", "too_large", "too_slow", "refused", "unknown"]


class InstallFailed(PackageError):
    """An installation that did not come about; `kind` says in one word why, `about` which package it was."""

    def __init__(self, kind: Kind, message: str, about: str | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.about = about
