"""Import names that an environment has, by a look at its folders; nothing is imported."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

from belljar.packages.environment import Environment
from belljar.packages.wheels import module_of

FACTS = "layer.json"
MOST_RECORD_BYTES = 16 << 20
STANDARD = sys.stdlib_module_names | {"annotationlib", "compression"}  # the sandbox's Python may be newer than ours


def known_modules(environment: Environment) -> frozenset[str]:
    """Of the standard library, the environment and its layer."""
    return _of_site(environment.site) | modules_of_layer(environment).keys()


def modules_of(environment: Environment) -> dict[str, str]:
    """Import names of an environment, with its layer, and the distributions that they belong to."""
    own = {} if environment.site is None else _recorded(environment.site)
    return own | modules_of_layer(environment)


def modules_of_layer(environment: Environment) -> dict[str, str]:
    """The same of its layer alone."""
    return {} if environment.layer is None else _of_layer(environment.layer.parent)


def facts_of(folder: Path) -> dict[str, Any]:
    """What a layer has: `packages`, and `modules`, which says whose an import name is."""
    facts: dict[str, Any] = json.loads((folder / FACTS).read_text("utf-8"))
    return facts


def recorded_modules(site: Path) -> dict[str, str]:
    """Import names by the records of the distributions that brought them."""
    from belljar.packages.names import normal

    found: dict[str, str] = {}
    for record in sorted(site.glob("*.dist-info/RECORD")):
        if record.stat().st_size > MOST_RECORD_BYTES:
            continue
        name = normal(record.parent.name.removesuffix(".dist-info").rpartition("-")[0])
        for line in record.read_text("utf-8", "replace").splitlines():
            place = line.partition(",")[0].strip('"')
            if place.endswith((".py", ".so")) and (module := module_of(place)) is not None:
                found.setdefault(module, name)
    return found


@functools.lru_cache(64)
def _of_layer(folder: Path) -> dict[str, str]:
    found: dict[str, str] = facts_of(folder)["modules"]
    return found


@functools.lru_cache(8)
def _recorded(site: Path) -> dict[str, str]:
    return recorded_modules(site)


@functools.lru_cache(8)
def _of_site(site: Path | None) -> frozenset[str]:
    if site is None:
        return frozenset(STANDARD)
    with os.scandir(site) as entries:
        names = [module_of(f"{entry.name}/x.py" if entry.is_dir() else entry.name) for entry in entries]
    return frozenset(STANDARD) | {name for name in names if name is not None}
