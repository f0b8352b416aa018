"""Why packages could not be installed, told apart so that the next thing to try is known."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from belljar.errors import PackageError

Kind = Literal["missing", "no_build", "conflict", "unreachable", "too_large", "too_slow", "refused", "unknown"]


WITHOUT_INDEX = "this machine does not have it, and the package index could not be reached a moment ago"


class InstallFailed(PackageError):
    """An installation that did not come about; `kind` says in one word why, `about` which package it was."""

    def __init__(self, kind: Kind, message: str, about: str | None = None) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.about = about


@contextlib.contextmanager
def told_as_written(written: Sequence[str], built: Sequence[str]) -> Iterator[None]:
    """In what fails here, addresses are those that somebody wrote, not where on this machine the wheels are."""
    try:
        yield
    except InstallFailed as failure:
        told = str(failure)
        for text, place in zip(written, built, strict=True):
            if place != text:
                end = re.escape("/".join(place.split("/")[-2:]))
                told = re.sub(rf"(?:[\w.-]+ @ )?[^\s'\"]*{end}", text, told)
        raise InstallFailed(failure.kind, told, failure.about) from None
