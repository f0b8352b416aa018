"""Why an import failed, in words: a typo, no such package, no build for this engine, or nobody to ask.

It never raises and changes nothing; names from inside are checked before they go anywhere.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from belljar.packages import lookup
from belljar.packages.modules import STANDARD
from belljar.packages.names import WELL_KNOWN, distribution_of, is_possible, normal
from belljar.packages.target import Target
from belljar.policy import Policy

MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}(?:\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,20}")
NO_NAME = "That is not a name that a package could have."
CLOSE = 0.8


def explain(module: str, *, target: Target, modules: Mapping[str, str], policy: Policy | None = None) -> str:
    """One or two sentences about an import of `module` that failed with ModuleNotFoundError.

    `modules` maps the import names that the sandbox has to distributions. Takes a second or some, when the index has to
    be asked; may be called from any thread.
    """
    if not MODULE.fullmatch(module):
        return NO_NAME
    top, _, rest = module.partition(".")
    if rest and (top in modules or top in STANDARD):
        return f"{_owner(top, modules)} has no submodule {rest!r}."
    if top in STANDARD:
        advice = f" Use engine={target.fuller.engine!r} for it." if target.fuller else ""
        return f"{top!r} is part of Python's standard library, but the {target.engine} engine has none.{advice}"
    return (
        _known_elsewhere(top, modules)
        or _left_out(top, target)
        or _no_build(top, target)
        or _typo(top, modules)
        or _by_the_policy(top, policy or Policy())
        or _by_the_index(top, target)
    )


def is_foregone(top: str, target: Target, modules: Mapping[str, str]) -> bool:
    """Whether there is no point in looking for a package of that import name, or no sense: it looks like a typo."""
    if top in STANDARD:
        return True
    return bool(_known_elsewhere(top, modules) or _no_build(top, target) or _typo(top, modules))


def _owner(top: str, has: Mapping[str, str]) -> str:
    distribution = has.get(top, top)
    return f"{top!r} (of {distribution})" if normal(top) != distribution else f"{top!r}"


def _known_elsewhere(top: str, has: Mapping[str, str]) -> str | None:
    """The distribution's name was imported instead of the module's."""
    imports = sorted(name for name, distribution in has.items() if distribution == normal(top) and name != top)
    return f"{top!r} is installed, but is imported as {imports[0]!r}." if imports else None


def _left_out(top: str, target: Target) -> str | None:
    """It is preinstalled, and this sandbox was made without."""
    distribution = distribution_of(top)
    if distribution in target.preinstalled:
        return f"The package {distribution!r} is preinstalled, but this sandbox was made without (packages='none')."
    return None


def _no_build(top: str, target: Target) -> str | None:
    distribution = distribution_of(top)
    return _no_build_sentence(distribution, target) if distribution in target.no_build else None


def _no_build_sentence(distribution: str, target: Target) -> str:
    fuller, advice = target.fuller, ""
    if fuller is not None and distribution in fuller.preinstalled:
        advice = f" Use engine={fuller.engine!r}, which has it."
    elif fuller is not None:
        advice = f" Use engine={fuller.engine!r}, which can install it: packages=[{distribution!r}]."
    return f"The package {distribution!r} {target.lacks(distribution)}.{advice}"


def _typo(top: str, has: Mapping[str, str]) -> str | None:
    """The nearest name that is really something, unless this one is."""
    if top in WELL_KNOWN:
        return None
    candidates = {name for name in STANDARD | has.keys() | WELL_KNOWN if not name.startswith("_")}
    lowered = {name.lower(): name for name in sorted(candidates)}
    close = [lowered[name] for name in difflib.get_close_matches(top.lower(), lowered, n=5, cutoff=CLOSE)]
    if not close:
        return None
    nearest = min(close, key=lambda name: (-_likeness(top, name), name not in has, name not in WELL_KNOWN, name))
    return f"No module is named {top!r}; did you mean {nearest!r}?"


def _likeness(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left.lower(), right.lower()).ratio()


def _by_the_policy(top: str, policy: Policy) -> str | None:
    """Whoever may not install anything has no reason to ask an index, which would learn the name."""
    if policy.packages == "none":
        return f"No module is named {top!r}, and nothing is installed here (packages='none')."
    if not isinstance(policy.packages, str):
        distribution = distribution_of(top)
        return f"If there is a package {distribution!r}, this sandbox's Policy(packages=[...]) does not allow it."
    return None


def _by_the_index(top: str, target: Target) -> str:
    distribution = distribution_of(top)
    if not is_possible(distribution):
        return NO_NAME
    answer = lookup.ask(distribution, target)
    match answer.kind:
        case "missing":
            return f"There is no package {distribution!r} on the package index."
        case "no_build" if target.fuller is not None:
            return _no_build_sentence(distribution, target)
        case "no_build":
            return f"The package {distribution!r} has no wheel for this machine's Python, and nothing is built."
        case "usable":
            return f"The package {distribution!r} exists and can be installed: packages=[{distribution!r}]."
        case _:
            return (
                f"Whether there is a package {distribution!r} is not known: the package index cannot be asked"
                f" ({answer.reason})."
            )
