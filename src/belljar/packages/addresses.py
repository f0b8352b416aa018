"""Addresses of packages: code in a git repository, or one file on a server. Only below what the operator has named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from belljar.errors import InvalidRequest

LONGEST = 500
FORMS = (
    "'git+https://host/repository.git@ref' or 'https://host/file.whl', '.tar.gz' or '.zip', with 'name @ ' before it"
)
_LOOKS_LIKE_ONE = re.compile(r"(?i)^(?:[\w.-]+\s*@\s*)?(?:git\+)?https?://")
_WRITTEN = re.compile(
    r"(?:(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?) ?@ ?)?(?P<git>git\+)?"
    r"(?P<url>(?i:https?)://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/[A-Za-z0-9._~+/-]+?)"
    r"(?:@(?P<ref>[A-Za-z0-9][A-Za-z0-9._/-]{0,198}))?(?:#sha256=(?P<sha256>[0-9a-f]{64}))?"
)
_FILES = (".whl", ".tar.gz", ".zip")


@dataclass(frozen=True)
class Address:
    """Where a package's code is. `ref` is a branch, a tag or a commit of a repository."""

    url: str
    is_git: bool
    name: str | None = None
    ref: str | None = None
    sha256: str | None = None

    @property
    def file_name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def is_wheel(self) -> bool:
        """Whether there is nothing to build."""
        return not self.is_git and self.url.endswith(".whl")

    def __str__(self) -> str:
        name = f"{self.name} @ " if self.name else ""
        ref = f"@{self.ref}" if self.ref else ""
        sha256 = f"#sha256={self.sha256}" if self.sha256 else ""
        return f"{name}{'git+' if self.is_git else ''}{self.url}{ref}{sha256}"


def is_address(written: object) -> bool:
    """Whether somebody means an address rather than a name."""
    return isinstance(written, str) and _LOOKS_LIKE_ONE.match(written) is not None


def parse_address(written: str, sources: Sequence[str]) -> Address:
    """An address below one of the sources.

    Raises:
        InvalidRequest: with the reason.
    """
    shown = written if len(written) <= 80 else f"{written[:77]}..."
    if not sources:
        raise InvalidRequest(
            f"{shown!r} is not a package that can be installed: addresses and version control systems are not allowed"
            " here; name a package of the index, or have the operator list the address in BELLJAR_PACKAGE_SOURCES"
        )
    found = _WRITTEN.fullmatch(written) if len(written) <= LONGEST else None
    if found is None:
        raise InvalidRequest(f"{shown!r} is not an address that can be installed from; write {FORMS}")
    url, is_git = plain(found["url"]), found["git"] is not None
    parts = urlsplit(url).path.split("/")[1:]
    if any(part in ("", ".", "..") for part in parts) or ".." in (found["ref"] or ""):
        raise InvalidRequest(f"{shown!r} is not an address that can be installed from: it has '//' or '..' in it")
    if is_git and found["sha256"]:
        raise InvalidRequest(f"{shown!r} has a sha256, which a repository has not; name a whole commit after '@'")
    if not is_git and (found["ref"] or not url.endswith(_FILES)):
        raise InvalidRequest(f"{shown!r} is not a file that can be installed; write {FORMS}")
    address = Address(
        url, is_git, str(canonicalize_name(found["name"])) if found["name"] else None, found["ref"], found["sha256"]
    )
    check_source(address.url, sources)
    return address


def check_source(url: str, sources: Sequence[str]) -> None:
    """Refuse what is not below one of the sources.

    Raises:
        InvalidRequest: naming them.
    """
    steps = urlsplit(url).path.lower().replace("%2e", ".").replace("\\", "/").split("/")
    if ".." in steps or not plain(url).startswith(tuple(sources)):
        raise InvalidRequest(f"{url[:200]!r} is not allowed here; BELLJAR_PACKAGE_SOURCES has {', '.join(sources)}")


def plain(url: str) -> str:
    """An address with scheme and host in small letters."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash}{path}"
