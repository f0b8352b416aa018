"""Why an import failed, in words: a typo, no such package, no build for this engine, or nobody to ask.

It never raises and changes nothing; names from inside are checked before they go anywhere.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from belljar.packages import lookup, pins
from belljar.packages.modules import STANDARD
from belljar.packages.names import NO_BUILD, WELL_KNOWN, distribution_of, is_possible, is_preinstalled_natively, normal
from belljar.packages.pyodide import known_modules
from belljar.policy import Policy
from belljar.settings import Settings

MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}(?:\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,20}")
NO_NAME = "That is not a name that a package could have."
CLOSE = 0.8


def explain(
    module: str, *, engine: str, settings: Settings, modules: Mapping[str, str] | None = None,
    policy: Policy | None = None,
) -> str:  # fmt: skip
    """One or two sentences about an import of `module` that failed with ModuleNotFoundError.

    `modules` maps the import names that the sandbox has to distributions; by default those of the prepared set. Takes a
    second or some, when the index has to be asked; may be called from any thread.
    """
    if not MODULE.fullmatch(module):
        return NO_NAME
    has = known_modules(settings.cache_dir) if modules is None else modules
    top, _, rest = module.partition(".")
    if rest and (top in has or top in STANDARD):
        return f"{_owner(top, has)} has no submodule {rest!r}."
    if top in STANDARD:
        return (
            f"{top!r} is part of Python's standard library, but the {engine} engine has none. {_native(engine)}".strip()
        )
    return (
        _known_elsewhere(top, has)
        or _left_out(top, engine)
        or _no_build(top, engine)
        or _typo(top, has)
        or _by_the_policy(top, policy or Policy())
        or _by_the_index(top, engine)
    )


def is_foregone(top: str, engine: str, modules: Mapping[str, str]) -> bool:
    """Whether there is no point in looking for a package of that import name, or no sense: it looks like a typo."""
    if top in STANDARD:
        return True
    return bool(_known_elsewhere(top, modules) or _no_build(top, engine) or _typo(top, modules))


def _owner(top: str, has: Mapping[str, str]) -> str:
    distribution = has.get(top, top)
    return f"{top!r} (of {distribution})" if normal(top) != distribution else f"{top!r}"


def _native(engine: str) -> str:
    return "" if engine == "native" else "Use engine='native' for it."


def _known_elsewhere(top: str, has: Mapping[str, str]) -> str | None:
    """The distribution's name was imported instead of the module's."""
    imports = sorted(name for name, distribution in has.items() if distribution == normal(top) and name != top)
    return f"{top!r} is installed, but is imported as {imports[0]!r}." if imports else None


def _left_out(top: str, engine: str) -> str | None:
    """It is preinstalled, and this sandbox was made without."""
    distribution = distribution_of(top)
    set_of_wasm = {pin.requirement.partition("==")[0] for pin in pins.load().wheels}
    if distribution in set_of_wasm if engine == "wasm" else is_preinstalled_natively(distribution):
        return f"The package {distribution!r} is preinstalled, but this sandbox was made without (packages='none')."
    return None


def _no_build(top: str, engine: str) -> str | None:
    distribution = distribution_of(top)
    if engine != "wasm" or distribution not in NO_BUILD:
        return None
    return _no_build_sentence(distribution, f": {NO_BUILD[distribution]}")


def _no_build_sentence(distribution: str, why: str) -> str:
    if is_preinstalled_natively(distribution):
        return f"The package {distribution!r} has no build for the wasm engine{why}. Use engine='native', which has it."
    return (
        f"The package {distribution!r} has no build for the wasm engine{why}."
        f" Use engine='native', which can install it: packages=[{distribution!r}]."
    )


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


def _by_the_index(top: str, engine: str) -> str:
    distribution = distribution_of(top)
    if not is_possible(distribution):
        return NO_NAME
    answer = lookup.ask(distribution, engine)
    match answer.kind:
        case "missing":
            return f"There is no package {distribution!r} on the package index."
        case "no_build" if engine == "wasm":
            return _no_build_sentence(distribution, "")
        case "no_build":
            return f"The package {distribution!r} has no wheel for this machine's Python, and nothing is built."
        case "usable":
            return f"The package {distribution!r} exists and can be installed: packages=[{distribution!r}]."
        case _:
            return (
                f"Whether there is a package {distribution!r} is not known: the package index cannot be asked"
                f" ({answer.reason})."
            )
