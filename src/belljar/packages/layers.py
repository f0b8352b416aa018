"""Layers: packages that were added to an environment. Made once, named by their content, and never written again."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from belljar.packages import remembered
from belljar.packages.bounded import Budget
from belljar.packages.environment import Environment
from belljar.packages.eviction import LOCK, evict, sweep
from belljar.packages.failure import InstallFailed
from belljar.packages.holds import hold
from belljar.packages.lock import alone, try_to_hold
from belljar.packages.modules import FACTS, facts_of, recorded_modules
from belljar.packages.requirements import has_version, is_satisfied, name_of, still_wanted, versions
from belljar.packages.weight import weight
from belljar.settings import Settings

TRIES = 3
GENERATION = "1"  # counts up when a layer of an older Belljar must not be reused

Finish = Callable[[Path], None]


@dataclass(frozen=True)
class Resolved:
    """One distribution that is needed; `text` also has the hashes that its wheel may have."""

    name: str
    version: str
    text: str


Resolution = list[Resolved]


class Client(Protocol):
    """A client of the package index, for one engine."""

    @property
    def engine(self) -> str: ...

    def resolve(
        self, ground: Environment, wanted: Sequence[str], pinned: Sequence[str], scratch: Path, budget: Budget
    ) -> Resolution:
        """Everything that `wanted` needs, at the pinned versions where that can be.

        Raises:
            InstallFailed: with the reason.
        """

    def install(self, resolved: Resolution, site: Path, python: Path, scratch: Path, budget: Budget) -> None:
        """Put the resolved distributions into a folder; their bytes must be those that were resolved.

        Raises:
            InstallFailed: with the reason.
        """


def extend(
    environment: Environment, wanted: Sequence[str], client: Client, settings: Settings, budget: Budget,
    finish: Finish | None = None,
) -> Environment:  # fmt: skip
    """The environment with these packages, too; itself when it has them. Blocks.

    Raises:
        InstallFailed: with the reason, in a sentence.
    """
    new = [text for text in wanted if not is_satisfied(text, environment.packages)]
    if not new:
        return environment
    ground, asked = environment.ground, tuple(dict.fromkeys([*still_wanted(environment.requirements, new), *new]))
    home = settings.cache_dir / "environments" / "layers"
    key = remembered.key(ground.digest, environment.digest, asked)
    for _ in range(TRIES):
        found = remembered.recall(home, key, settings)
        if found is None:
            try:
                found = _make(environment, asked, client, home, budget, finish)
            except InstallFailed as failure:
                found = remembered.recall(home, key, None) if failure.kind in ("unreachable", "too_slow") else None
                if found is None:
                    told = f"{', '.join(new)} could not be installed: {failure}"
                    told = re.sub(rf"{re.escape(str(settings.cache_dir))}(?:\S*/\.new-\w+)?", "", told)
                    raise InstallFailed(failure.kind, told, failure.about) from None
            else:
                remembered.remember(home, key, found, settings)
                evict(home, settings, found)
        if not found:
            return ground
        if (extended := layered(ground, home / found, asked)) is not None:
            return extended
    raise InstallFailed(
        "unknown", f"{', '.join(new)} could not be kept: other installations need the room of BELLJAR_LAYERS_MB"
    )


def layered(ground: Environment, folder: Path, asked: tuple[str, ...]) -> Environment | None:
    """An environment with a layer on it; None when that has just been removed."""
    held = hold(folder)
    try:
        facts = facts_of(folder)
    except FileNotFoundError:
        return None
    before, added = versions(ground.packages), versions(facts["packages"])
    return replace(
        ground, digest=f"{ground.digest}+{folder.name}", layer=folder / "site", base=ground, requirements=asked,
        packages=tuple(f"{name}=={version}" for name, version in sorted((before | added).items())),
        is_warm=ground.is_warm and not before.keys() & added.keys(), hold=held,
    )  # fmt: skip


def _make(
    environment: Environment, asked: Sequence[str], client: Client, home: Path, budget: Budget,
    finish: Finish | None,
) -> str:  # fmt: skip
    """The name of the layer; empty when nothing is to be added."""
    ground = environment.ground
    home.mkdir(parents=True, exist_ok=True)
    sweep(home)
    fresh = Path(tempfile.mkdtemp(dir=home, prefix=".new-"))
    scratch, layer = fresh / "scratch", fresh / "layer"
    scratch.mkdir()
    layer.mkdir(mode=0o755)
    held = open(fresh / LOCK, "wb")  # noqa: SIM115 -- until all is done, or this process ends
    try:
        try_to_hold(held.fileno())
        there = versions(ground.packages)
        resolved = client.resolve(ground, asked, environment.packages, scratch, budget)
        added = [one for one in resolved if not has_version(there, one.name, one.version)]
        added.sort(key=lambda one: one.name)
        if not added:
            return ""
        name = _digest(ground, client.engine, added)
        with alone(home / f"{name}.lock"):
            if not (home / name / FACTS).exists():
                site = layer / "site"
                site.mkdir(mode=0o755)
                client.install(added, site, ground.python, scratch, budget)
                budget.check_size(weight(site))
                if finish is not None:
                    finish(layer)
                _write_facts(layer, site, added)
                layer.rename(home / name)
        return name
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        held.close()


def _digest(ground: Environment, engine: str, added: Resolution) -> str:
    parts = [GENERATION, engine, ground.digest, *(one.text for one in added)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _write_facts(layer: Path, site: Path, added: Resolution) -> None:
    packages = [f"{name_of(one.name)}=={one.version}" for one in added]
    facts = {"packages": packages, "modules": recorded_modules(site), "size": weight(layer)}
    (layer / FACTS).write_text(json.dumps(facts), "utf-8")
