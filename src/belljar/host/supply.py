"""Packages for one live sandbox: those that somebody asked for, and those that its code imports and nobody has."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from belljar.errors import PackageError, SandboxError, StartFailed
from belljar.packages.environment import Environment
from belljar.policy import Policy

if TYPE_CHECKING:
    from belljar.host.session import Run, Session

AUTOMATIC_S = 60.0
LOOK_S = 5.0
SHORT_S, LONG_S = 60.0, 3600.0
MOST_AT_ONCE = 20
_IMPORTS = re.compile(r"\bfrom\s+(\w+)[\w.]*\s+import\b|\bimport\s+([^\n;#]*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Supply:
    """Of one sandbox. Whoever calls has the sandbox's turn."""

    # What this process has learnt: why not, and until when to believe it.
    _hopeless: ClassVar[dict[tuple[str, str, str], tuple[str, float]]] = {}

    def __init__(self, session: Session) -> None:
        self._session = session
        self.reasons: dict[str, str] = {}  # why a module that the last run wanted was not installed

    async def add(self, requirements: Sequence[str], seconds: float | None = None) -> list[str]:
        """Install into the sandbox as it is; `name==version` of what was asked for and of what came along.

        Raises:
            PackageError: with the reason; the sandbox is as it was.
        """
        from belljar.packages.failure import told_as_written
        from belljar.packages.requirements import name_of, versions

        spec = self._session.spec
        check_allowed(spec.policy, requirements)
        before = spec.environment
        wanted = await self._session.built(before, requirements)
        with told_as_written(requirements, wanted):
            after = await asyncio.to_thread(self._session.engine.extend, before, wanted, seconds)
        await self._adopt(after)
        found, asked = versions(after.packages), {name_of(text) for text in wanted}
        known = versions(before.packages)
        return [f"{name}=={version}" for name, version in found.items() if name in asked or known.get(name) != version]

    async def add_missing(self, run: Run) -> list[str]:
        """Install what code imports and the sandbox does not have, as far as that works; the run never fails for it."""
        self.reasons = {}
        if self._session.spec.policy.packages == "none" or not self._is_suspicious(run.code):
            return []
        request = {"type": "imports", "code": run.code, "env": dict(run.env), "cwd": run.cwd}
        try:
            named = (await self._session.ask_now(request, LOOK_S)).get("missing")
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

        known = known_modules(self._session.spec.environment)
        return any(name not in known for name in names_at_a_glance(code))

    async def _requirement(self, name: str) -> str | None:
        """What to install for an import name; None when that is not allowed, or would be of no use."""
        from belljar.packages import missing
        from belljar.packages.modules import modules_of
        from belljar.packages.names import distribution_of, is_possible

        spec = self._session.spec
        if missing.is_foregone(name, self._session.engine.name, await asyncio.to_thread(modules_of, spec.environment)):
            return None
        reason, until = self._hopeless.get(self._key(name), ("", 0.0))
        if until > time.monotonic():
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

        before, extend = self._session.spec.environment, self._session.engine.extend
        offline = lookup.silence() is not None  # what needs no index is to be had all the same
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
        if len(self._hopeless) > 1000:
            self._hopeless.clear()
        self._hopeless[self._key(name)] = (str(failure), time.monotonic() + for_s)

    def _heed(self, failure: PackageError) -> None:
        """When the index did not answer, imports do not wait for it for a while."""
        from belljar.packages import lookup

        if getattr(failure, "kind", "") == "unreachable" and lookup.silence() is None:
            lookup.note_silence(str(failure))

    def _key(self, name: str) -> tuple[str, str, str]:
        return self._session.engine.name, self._session.spec.environment.digest, name

    async def _adopt(self, after: Environment) -> None:
        """Make a sandbox one of another environment, without harm to what it has imported."""
        from belljar.packages.requirements import versions

        session, before = self._session, self._session.spec.environment
        if after.digest == before.digest:
            return
        old, new = versions(before.packages), versions(after.packages)
        replaced = {name for name in old.keys() & new.keys() if old[name] != new[name]}
        if replaced and not session.is_untouched:
            await self._check_unused(after, replaced, old, new)
        try:
            await session.process.provide(after)
        except StartFailed as failure:
            raise PackageError(str(failure)) from failure
        session.spec = replace(session.spec, environment=after)
        if replaced and session.is_untouched:  # whatever was imported ahead, nobody has seen it
            await session.renew()
        else:
            await session.ask_now({"type": "configure", "path": after.path})

    async def _check_unused(
        self, after: Environment, replaced: set[str], old: Mapping[str, str], new: Mapping[str, str]
    ) -> None:
        from belljar.packages.modules import modules_of_layer

        modules = {module: name for module, name in modules_of_layer(after).items() if name in replaced}
        answer = await self._session.ask_now({"type": "imports", "code": None, "names": sorted(modules)})
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
