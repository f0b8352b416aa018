"""pip as the installer for Pyodide: it downloads wheels for its platform; they are unpacked here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from belljar.errors import PackageError
from belljar.packages import lookup, pip, remembered
from belljar.packages.bounded import Budget, run
from belljar.packages.environment import Environment
from belljar.packages.failure import WITHOUT_INDEX, InstallFailed
from belljar.packages.layers import Resolution, Resolved
from belljar.packages.requirements import contradicts, has_version, name_of, versions
from belljar.packages.stubs import write_stubs
from belljar.packages.target import Target
from belljar.packages.wheels import unpack
from belljar.settings import Settings

_LINE = re.compile(r"-r \S+ \(line (\d+)\)")  # how pip names a line of the list that it was given
_NOBODY_HAS = re.compile(r"No matching distribution found for ([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True)
class Foreign:
    """Installs for Pyodide."""

    settings: Settings
    target: Target
    offline: bool = False  # no index is asked

    @property
    def engine(self) -> str:
        """The engine that it installs for."""
        return self.target.engine

    def resolve(
        self, ground: Environment, wanted: Sequence[str], pinned: Sequence[str], scratch: Path, budget: Budget
    ) -> Resolution:
        """Download what is needed beside the set."""
        write_stubs(ground, scratch / "stubs")
        names = {name_of(text) for text in wanted}
        looser = [line for line in pinned if name_of(line) not in names]
        if contradicts(wanted, pinned):
            return self._resolve(ground, wanted, looser, scratch, budget)
        try:
            return self._resolve(ground, wanted, pinned, scratch, budget)
        except InstallFailed as failure:
            if failure.kind != "conflict":
                raise
            try:
                return self._resolve(ground, wanted, looser, scratch, budget)
            except InstallFailed as other:
                raise InstallFailed(other.kind, str(failure if other.kind == "conflict" else other)) from None

    def install(self, resolved: Resolution, site: Path, python: Path, scratch: Path, budget: Budget) -> None:  # noqa: ARG002
        """Unpack the wheels that were resolved."""
        wheels = {(found.name, found.version): path for path, found in _wheels(scratch / "wheels")}
        for one in resolved:
            budget.check_time()
            try:
                unpack(wheels[one.name, one.version], site)
            except PackageError as failure:
                raise InstallFailed("refused", str(failure)) from failure

    def _resolve(
        self, ground: Environment, wanted: Sequence[str], pinned: Sequence[str], scratch: Path, budget: Budget
    ) -> Resolution:
        into, store = scratch / "wheels", self._store
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        store.mkdir(parents=True, exist_ok=True)
        (scratch / "wanted.txt").write_text("".join(f"{line}\n" for line in wanted), "utf-8")
        (scratch / "pinned.txt").write_text("".join(f"{line}\n" for line in pinned), "utf-8")
        house = self.settings.wheelhouse
        places = [scratch / "stubs", *([house] if house is not None and house.is_dir() else [])]
        argv = [
            *pip.command(), "download", "--no-input", "--no-cache-dir", "--disable-pip-version-check", "--no-color",
            "--progress-bar", "off", "--timeout", "10", "--retries", "0", "--dest", str(into), *self.target.pip_options,
            *(part for place in places for part in ("--find-links", str(place))),
            "--constraint", str(scratch / "pinned.txt"), "--requirement", str(scratch / "wanted.txt"),
        ]  # fmt: skip
        is_from_index = self._download(argv, wanted, scratch, budget, into)
        there, own = versions(ground.packages), {name_of(text) for text in wanted if Requirement(text).url}
        found = [(path, one) for path, one in _wheels(into) if not has_version(there, one.name, one.version)]
        for path, one in found:
            if is_from_index and one.name not in own and not (house is not None and (house / path.name).exists()):
                _keep(path, store)
        return [one for _, one in found]

    @property
    def _store(self) -> Path:
        """What one index gave, and nothing else, for a time when it cannot be reached."""
        return self.settings.cache_dir / "wasm" / "wheels" / remembered.source(self.settings)

    def _download(self, argv: list[str], wanted: Sequence[str], scratch: Path, budget: Budget, into: Path) -> bool:
        """Ask the index; when it cannot be reached, see what it gave before. Whether it was the index."""
        failure = InstallFailed("unreachable", WITHOUT_INDEX)
        if not self.offline:
            code, out, said = run(argv, scratch, pip.environment(scratch), budget, into)
            if not code:
                return True
            if (failure := self._understood(out + said, wanted)).kind != "unreachable":
                raise failure
        argv = [*argv, "--no-index", "--find-links", str(self._store)]
        if run(argv, scratch, pip.environment(scratch), budget, into)[0]:
            raise failure
        return False

    def _understood(self, said: str, wanted: Sequence[str]) -> InstallFailed:
        """What pip's complaint amounts to; about a package that it did not get, the index is asked once more."""
        if found := _NOBODY_HAS.search(said):
            name = name_of(found[1])
            answer = lookup.ask(name, self.target)
            if answer.kind == "usable":  # perhaps it only was, when somebody last asked
                answer = lookup.ask(name, self.target, anew=True)
            if answer.kind == "missing":
                return InstallFailed("missing", f"there is no package {name!r} on the package index", name)
            if answer.kind == "unreachable":
                return InstallFailed("unreachable", f"the package index cannot be reached: {answer.reason}")
            if answer.kind == "no_build" or name in self.target.no_build:
                needed = "" if name in {name_of(text) for text in wanted} else ", which it needs,"
                return InstallFailed("no_build", f"{name!r}{needed} {self._lacking(name)}", name)
            return InstallFailed("conflict", f"no version of {name!r} fits; {pip.complaint(said)}")
        if "ResolutionImpossible" in said or "conflicting dependencies" in said:
            if known := [name for name in map(name_of, wanted) if name in self.target.no_build]:
                return InstallFailed("no_build", f"{known[0]!r} {self._lacking(known[0])}")
            told = pip.complaint(said).partition("; ResolutionImpossible")[0]
            return InstallFailed("conflict", _LINE.sub(lambda line: wanted[int(line[1]) - 1], told))
        if "only names are followed" in said:
            return InstallFailed("refused", pip.complaint(said))
        if "is not a supported wheel" in said:
            return InstallFailed("no_build", f"it has compiled parts, for another platform; {pip.complaint(said)}")
        if "HASHES" in said or "do not match the hashes" in said:
            return InstallFailed("refused", f"what the index gave is not what it had announced: {pip.complaint(said)}")
        return InstallFailed("unknown", pip.complaint(said))

    def _lacking(self, name: str) -> str:
        fuller = self.target.fuller
        return self.target.lacks(name) + (f"; use engine={fuller.engine!r}" if fuller else "")


def _wheels(folder: Path) -> list[tuple[Path, Resolved]]:
    found = []
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        with open(path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        found.append((path, Resolved(str(name), str(version), f"{name}=={version} --hash=sha256:{sha256}")))
    return found


def _keep(wheel: Path, store: Path) -> None:
    """For a time without an index."""
    if not (store / wheel.name).exists():
        part = store / f".{os.getpid()}-{wheel.name}.part"
        shutil.copyfile(wheel, part)
        os.replace(part, store / wheel.name)
