"""Packages for one live sandbox: those that were asked for, and those that its code imports and it does not have."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from belljar.engines.base import Event, Spec
from belljar.errors import PackageError, SandboxError, StartFailed
from belljar.host.source_builds import SourceBuilds
from belljar.packages.environment import Environment
from belljar.packages.installer import Installer
from belljar.policy import Policy
from belljar.service.base import RunRequest

AUTOMATIC_S = 60.0
LOOK_S = 5.0
SHORT_S, LONG_S = 60.0, 3600.0
MOST_AT_ONCE = 20
MOST_REMEMBERED = 1000
_IMPORTS = re.compile(r"\bfrom\s+(\w+)[\w.]*\s+import\b|\bimport\s+([^\n;#]*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Receiver(Protocol):
    """The sandbox that packages are added to. Every caller holds its turn."""

    @property
    def spec(self) -> Spec:
        """What it is built from now."""

    @property
    def is_untouched(self) -> bool:
        """Whether no code has run in it."""

    async def ask_now(self, request: dict[str, Any], seconds: float | None = None) -> Event:
        """Send one Request to its kernel."""

    async def adopt(self, environment: Environment) -> None:
        """Have it import from this environment.

        Raises:
            StartFailed: when the packages cannot be shown to it.
        """

    async def renew(self) -> bool:
        """Start a fresh Python in it."""


class FailedImports:
    """Why modules could not be installed, remembered for a while by all sandboxes of a host."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str, str], tuple[str, float]] = {}

    def reason(self, key: tuple[str, str, str]) -> str | None:
        """The reason, while it still holds."""
        reason, until = self._reasons.get(key, ("", 0.0))
        return reason if until > time.monotonic() else None

    def add(self, key: tuple[str, str, str], reason: str, seconds: float) -> None:
        """Remember a reason for so many seconds."""
        if len(self._reasons) > MOST_REMEMBERED:
            self._reasons.clear()
        self._reasons[key] = (reason, time.monotonic() + seconds)

    def clear(self) -> None:
        """Forget every reason."""
        self._reasons.clear()


class SandboxPackages:
    """Installs packages into one sandbox. Every caller holds the sandbox's turn."""

    def __init__(
        self, receiver: Receiver, installer: Installer, sources: SourceBuilds, failed: FailedImports, engine_name: str
    ) -> None:
        self._sandbox = receiver
        self._installer = installer
        self._sources = sources
        self._failed = failed
        self._engine_name = engine_name
        self.reasons: dict[str, str] = {}  # why a module that the last run wanted was not installed

    async def for_run(self, request: RunRequest) -> tuple[list[str], str | None]:
        """Install what a run asks for and imports; returns what was installed, and why the run cannot go ahead."""
        installed: list[str] = []
        if request.packages:
            try:
                installed = await self.add(request.packages)
            except PackageError as failure:
                return [], str(failure)
        return [*installed, *await self.add_missing(request)], None

    async def explain(self, module: str) -> str:
        """What to do about an import that failed."""
        reason = self.reasons.get(module.partition(".")[0])
        spec = self._sandbox.spec
        return reason or await self._installer.explain_import(module, spec.environment, spec.policy)

    async def add(self, requirements: Sequence[str], seconds: float | None = None) -> list[str]:
        """Install into the sandbox as it is; `name==version` of what was asked for and of what came along.

        Raises:
            PackageError: with the reason; the sandbox is as it was.
        """
        from belljar.packages.failure import told_as_written
        from belljar.packages.requirements import name_of, versions

        spec = self._sandbox.spec
        check_allowed(spec.policy, requirements)
        before = spec.environment
        wanted = await self._sources.with_wheels(self._installer, before, requirements)
        with told_as_written(requirements, wanted):
            after = await asyncio.to_thread(self._installer.extend, before, wanted, seconds)
        await self._adopt(after)
        found, asked = versions(after.packages), {name_of(text) for text in wanted}
        known = versions(before.packages)
        return [f"{name}=={version}" for name, version in found.items() if name in asked or known.get(name) != version]

    async def add_missing(self, request: RunRequest) -> list[str]:
        """Install what code imports and the sandbox does not have, as far as that works; the run never fails for it."""
        self.reasons = {}
        if self._sandbox.spec.policy.packages == "none" or not self._is_suspicious(request.code):
            return []
        question = {"type": "imports", "code": request.code, "env": dict(request.env), "cwd": request.cwd}
        try:
            named = (await self._sandbox.ask_now(question, LOOK_S)).get("missing")
        except SandboxError:
            return []  # the code has finders of its own; the run will show what they are up to
        names = (
            [name for name in named if isinstance(name, str) and _NAME.fullmatch(name)] if type(named) is list else []
        )
        wanted = {name: text for name in names[:MOST_AT_ONCE] if (text := await self._requirement(name)) is not None}
        until = time.monotonic() + AUTOMATIC_S
        if len(wanted) > 1:
            try:
                return await self._add_modules(wanted, until)
            except PackageError as failure:  # one of them must not keep the others back
                self._heed(failure)
                wanted = self._left(wanted, failure)
        installed: list[str] = []
        while wanted:
            name = next(iter(wanted))
            try:
                installed += await self._add_modules({name: wanted.pop(name)}, until)
            except PackageError as failure:
                self._give_up(name, failure)
                wanted = self._left(wanted, failure)
        return installed

    def _left(self, wanted: dict[str, str], failure: PackageError) -> dict[str, str]:
        """What is still worth a try of its own: nothing when the index is slow, and not what it does not have."""
        kind, about = getattr(failure, "kind", ""), getattr(failure, "about", None)
        vain = [name for name, text in wanted.items() if kind == "too_slow" or text == about]
        for name in vain:
            self._give_up(name, failure)
        return {name: text for name, text in wanted.items() if name not in vain}

    def _is_suspicious(self, code: str) -> bool:
        """Whether a glance at the code shows a name that may not be there; the kernel looks closer then."""
        if "import" not in code:
            return False
        from belljar.packages.modules import known_modules

        known = known_modules(self._sandbox.spec.environment)
        return any(name not in known for name in names_at_a_glance(code))

    async def _requirement(self, name: str) -> str | None:
        """What to install for an import name; None when that is not allowed, or would be of no use."""
        from belljar.packages import missing
        from belljar.packages.modules import modules_of
        from belljar.packages.names import distribution_of, is_possible

        spec = self._sandbox.spec
        if missing.is_foregone(name, self._installer.target, await asyncio.to_thread(modules_of, spec.environment)):
            return None
        if (reason := self._failed.reason(self._key(name))) is not None:
            self.reasons[name] = reason
            return None
        distribution = distribution_of(name)
        if not is_possible(distribution):
            return None
        allowed = allowed_packages(spec.policy)
        return distribution if allowed is None else allowed.get(distribution)

    async def _add_modules(self, wanted: Mapping[str, str], until: float) -> list[str]:
        from belljar.packages import lookup
        from belljar.packages.modules import known_modules
        from belljar.packages.requirements import versions

        before, extend = self._sandbox.spec.environment, self._installer.extend
        offline = lookup.silence() is not None  # packages that need no index can still be had
        seconds = max(1.0, until - time.monotonic())
        after = await asyncio.to_thread(extend, before, list(wanted.values()), seconds, offline)
        has = known_modules(after)
        for name, text in wanted.items():
            if name not in has:
                raise PackageError(
                    f"the package {text!r} exists, but brings no module {name!r}, so it was not installed"
                )
        await self._adopt(after)
        known = versions(before.packages)
        return [f"{name}=={new}" for name, new in versions(after.packages).items() if known.get(name) != new]

    def _give_up(self, name: str, failure: PackageError) -> None:
        kind = getattr(failure, "kind", "missing")
        for_s = LONG_S if kind in ("missing", "no_build", "too_large") else SHORT_S
        self.reasons[name] = str(failure)
        self._heed(failure)
        self._failed.add(self._key(name), str(failure), for_s)

    def _heed(self, failure: PackageError) -> None:
        """When the index did not answer, imports do not wait for it for a while."""
        from belljar.packages import lookup

        if getattr(failure, "kind", "") == "unreachable" and lookup.silence() is None:
            lookup.note_silence(str(failure))

    def _key(self, name: str) -> tuple[str, str, str]:
        return self._engine_name, self._sandbox.spec.environment.digest, name

    async def _adopt(self, after: Environment) -> None:
        """Make a sandbox one of another environment, without harm to what it has imported."""
        from belljar.packages.requirements import versions

        sandbox, before = self._sandbox, self._sandbox.spec.environment
        if after.digest == before.digest:
            return
        old, new = versions(before.packages), versions(after.packages)
        replaced = {name for name in old.keys() & new.keys() if old[name] != new[name]}
        if replaced and not sandbox.is_untouched:
            await self._check_unused(after, replaced, old, new)
        try:
            await sandbox.adopt(after)
        except StartFailed as failure:
            raise PackageError(str(failure)) from failure
        if replaced and sandbox.is_untouched:  # no code has seen what was imported ahead
            await sandbox.renew()
        else:
            await sandbox.ask_now({"type": "configure", "path": after.path})

    async def _check_unused(
        self, after: Environment, replaced: set[str], old: Mapping[str, str], new: Mapping[str, str]
    ) -> None:
        from belljar.packages.modules import modules_of_layer

        modules = {module: name for module, name in modules_of_layer(after).items() if name in replaced}
        answer = await self._sandbox.ask_now({"type": "imports", "code": None, "names": sorted(modules)})
        imported = answer.get("imported")
        used = sorted({modules[name] for name in imported if name in modules}) if isinstance(imported, list) else []
        if used:
            changes = ", ".join(f"{name} {old[name]} by {new[name]}" for name in used)
            raise PackageError(
                f"that would replace {changes}, and {'it is' if len(used) == 1 else 'they are'} imported already;"
                " nothing was changed. Make a new sandbox with packages=[...], or reset() this one first"
            )


def names_at_a_glance(code: str) -> list[str]:
    """What looks like top-level names that code imports, without understanding it."""
    found: list[str] = []
    for origin, listed in _IMPORTS.findall(code.replace("\\\n", " ")):
        names = [origin] if origin else listed.split(",")
        found += [name.strip().partition(".")[0].partition(" ")[0] for name in names]
    return [name for name in found if name]


def allowed_packages(policy: Policy) -> dict[str, str] | None:
    """What an allow-list names, by distribution; None when anything may be installed."""
    if isinstance(policy.packages, str):
        return None
    from belljar.packages.addresses import is_address
    from belljar.packages.requirements import name_of

    return {name_of(text): text for text in policy.packages if not is_address(text)}


def check_allowed(policy: Policy, requirements: Sequence[str]) -> None:
    """Raise PackageError for what the policy does not allow to install."""
    from belljar.packages.addresses import is_address
    from belljar.packages.requirements import name_of

    if requirements and policy.packages == "none":
        raise PackageError("this sandbox has Policy(packages='none'): nothing is installed into it")
    allowed = allowed_packages(policy)
    beyond = [
        text
        for text in requirements
        if allowed is not None and (text not in policy.packages if is_address(text) else name_of(text) not in allowed)
    ]
    if beyond:
        listed = ", ".join(sorted(policy.packages)) or "nothing"
        raise PackageError(f"{', '.join(beyond)} may not be installed here; Policy(packages=[...]) allows {listed}")
