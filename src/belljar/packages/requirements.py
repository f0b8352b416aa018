"""What users write to name a package: checked before it goes anywhere, and passed on only as this module spells it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import InvalidVersion, Version

from belljar.errors import InvalidRequest
from belljar.packages.addresses import is_address, parse_address

MOST = 100
LONGEST = 300
ALLOWED = "write a name ('rich'), with extras ('rich[jupyter]'), versions ('rich>=13,<15', 'rich==13.7.1') or a marker"
_WRITTEN = re.compile(r"[A-Za-z0-9 ._\-\[\],<>=!~*+()'\";]+")
_SOURCES = (
    (re.compile(r"^-"), "an option is not a package"),
    (re.compile(r"(?i)^(?:git|hg|svn|bzr)\+|\.git\b"), "that way into a version control system is not taken"),
    (re.compile(r"://|\s@\s|@\s*\w+:"), "an address is not installed"),
    (re.compile(r"^[./~\\]|[/\\]|\.(?:whl|zip|tar\.gz)$"), "a path is not installed"),
)


def parse(written: object) -> Requirement:
    """One requirement.

    Raises:
        InvalidRequest: with the reason and the forms that there are.
    """
    if not isinstance(written, str):
        raise InvalidRequest(f"a package is named by a string, not by {type(written).__name__}; {ALLOWED}")
    shown = written if len(written) <= 80 else f"{written[:77]}..."
    if written != written.strip() or any(ord(letter) < 32 or ord(letter) == 127 for letter in written):
        raise _refused(shown, "it begins or ends with a space, or has a line break in it")
    for pattern, reason in _SOURCES:
        if pattern.search(written):
            raise _refused(shown, reason)
    if not written or len(written) > LONGEST or not _WRITTEN.fullmatch(written):
        raise _refused(shown, "it is empty, too long, or has characters that no package's name has")
    try:
        found = Requirement(written)
    except InvalidRequirement as error:
        raise _refused(shown, str(error).splitlines()[0]) from None
    if found.url is not None:
        raise _refused(shown, "an address is not installed")
    if any(specifier.operator == "===" for specifier in found.specifier):
        raise _refused(shown, "=== compares letter by letter; use ==")
    return found


def check(given: object, what: str = "packages", sources: Sequence[str] = ()) -> tuple[str, ...]:
    """Requirements as this module spells them, without repetitions; addresses must be below one of the sources.

    Raises:
        InvalidRequest: naming the first that is none.
    """
    if given is None:
        return ()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidRequest(f"{what} must be a list of names, not {given!r:.80}")
    if len(given) > MOST:
        raise InvalidRequest(f"{what} has {len(given)} entries; at most {MOST} are installed at once")
    return tuple(dict.fromkeys(_checked(written, sources) for written in given))


def _checked(written: object, sources: Sequence[str]) -> str:
    return str(parse_address(str(written), sources)) if is_address(written) else spelled(parse(written))


def spelled(requirement: Requirement) -> str:
    """A requirement in one way of writing it."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f"; {requirement.marker}" if requirement.marker else ""
    return f"{canonicalize_name(requirement.name)}{extras}{requirement.specifier}{marker}"


def name_of(written: str) -> str:
    """The distribution that a requirement, or `name==version`, is about."""
    return str(canonicalize_name(Requirement(written).name))


def versions(packages: Iterable[str]) -> dict[str, str]:
    """`name==version` lines as a mapping."""
    return {str(canonicalize_name(name)): version for name, _, version in (line.partition("==") for line in packages)}


def has_version(there: Mapping[str, str], name: str, version: str) -> bool:
    """Whether exactly that version is there, however it is written: 2024.01 is 2024.1."""
    found = there.get(str(canonicalize_name(name)))
    return found is not None and canonicalize_version(found) == canonicalize_version(version)


def is_satisfied(written: str, packages: Iterable[str]) -> bool:
    """Whether what is there already is what is wanted; extras and files may be more than it, so those are never."""
    requirement = Requirement(written)
    version = versions(packages).get(name_of(written))
    if version is None or requirement.extras or requirement.marker is not None or requirement.url is not None:
        return False
    return _fits(requirement, version)


def contradicts(wanted: Iterable[str], packages: Iterable[str]) -> bool:
    """Whether what is wanted cannot be had without another version of something that is there."""
    there = versions(packages)
    for requirement in map(Requirement, wanted):
        version = there.get(str(canonicalize_name(requirement.name)))
        if version is not None and (requirement.url or not _fits(requirement, version)):
            return True
    return False


def _fits(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def still_wanted(before: Iterable[str], new: Iterable[str]) -> list[str]:
    """Of older requirements those that hold on; one about versions gives way to a newer one about versions."""
    replaced = {name_of(text) for text in new if _is_exacting(text)}
    return [text for text in before if name_of(text) not in replaced or not _is_exacting(text)]


def _is_exacting(written: str) -> bool:
    requirement = Requirement(written)
    return bool(requirement.specifier) or requirement.url is not None


def _refused(shown: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{shown!r} is not a package that can be installed: {reason}; {ALLOWED}")
