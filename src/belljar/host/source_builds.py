"""Packages from addresses: fetched by the host, built in a native sandbox without network, and installed as wheels."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from belljar.engines.base import Spec, Workspace
from belljar.errors import EngineUnavailable, FileError, InvalidRequest, PackageError, SandboxError
from belljar.execution import Execution
from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar.packages.failure import InstallFailed
from belljar.packages.installer import Installer
from belljar.packages.modules import FACTS
from belljar.pieces import whole
from belljar.policy import Policy
from belljar.service.base import RunRequest
from belljar.settings import Settings

if TYPE_CHECKING:  # few hosts build a source: the others do not wait for what that takes
    from belljar.packages.addresses import Address
    from belljar.packages.bounded import Budget

BEHIND = "a source is built behind the walls of the native engine"
RECIPE = Path(__file__).with_name("recipe.py")
LIMITS = {"memory_mb": 2048, "disk_mb": 1024, "processes": 64}
MOST_BYTES = 256 << 20  # of an archive that goes in, and of a wheel that comes out
KEPT_S = 30 * 86_400.0  # a wheel that was built is kept for so long after its last use


class BuildSandbox(Protocol):
    """A sandbox that sources are built in."""

    async def run(self, request: RunRequest) -> Execution:
        """Run code in it."""

    async def install(self, requirements: Sequence[str]) -> list[str]:
        """Add packages to it."""

    @property
    def workspace(self) -> Workspace:
        """Its files."""


OpenSandbox = Callable[[Spec], AbstractAsyncContextManager[BuildSandbox]]  # a sandbox of the native engine


class SourceBuilds:
    """Makes wheels of what addresses name, for all sandboxes of a host, and remembers which is which."""

    def __init__(self, settings: Settings, builder: Installer | None, open_sandbox: OpenSandbox) -> None:
        self._settings = settings
        self._builder = builder  # of the environments that builds run in; None where no engine can hold a build
        self._open_sandbox = open_sandbox
        self._origins: dict[str, str] = {}

    async def with_wheels(
        self, installer: Installer, environment: Environment, requirements: Sequence[str]
    ) -> list[str]:
        """These requirements, with a wheel on this machine in place of each address.

        Raises:
            PackageError: with the reason.
        """
        from belljar.packages.addresses import is_address

        return [await self._built(installer, environment, text) if is_address(text) else text for text in requirements]

    def origin(self, requirement: str) -> str:
        """The address that a requirement of with_wheels() stands for; any other requirement as it is."""
        return self._origins.get(requirement, requirement)

    async def _built(self, installer: Installer, environment: Environment, text: str) -> str:
        """The requirement that names a wheel on this machine. It is made anew once a day."""
        from belljar.packages import remembered
        from belljar.packages.addresses import parse_address
        from belljar.packages.bounded import Budget

        settings = self._settings
        address = parse_address(text, settings.package_sources)
        home = settings.cache_dir / "environments" / "built"
        key = remembered.key(environment.ground.digest, installer.name, [text])
        folder = remembered.recall(home, key, settings)
        if folder is None:
            budget = Budget.of(settings.install_timeout_s, min(settings.install_mb * 1_000_000, MOST_BYTES))
            try:
                folder = await self._make(installer, environment, address, home, budget)
            except (SandboxError, OSError) as failure:
                kind = failure.kind if isinstance(failure, InstallFailed) else "unknown"
                folder = remembered.recall(home, key, None) if kind in ("unreachable", "too_slow") else None
                if folder is None:
                    raise InstallFailed(kind, f"{text} could not be installed: {failure}") from None
            else:
                remembered.remember(home, key, folder, settings)
        facts = json.loads((home / folder / FACTS).read_text("utf-8"))
        os.utime(home / folder / FACTS)
        requirement = f"{facts['name']} @ {(home / folder / str(facts['wheel'])).as_uri()}"
        self._origins[requirement] = text
        return requirement

    async def _make(
        self, installer: Installer, environment: Environment, address: Address, home: Path, budget: Budget
    ) -> str:
        """The name of the folder that has the wheel."""
        from belljar.packages import origins

        await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=home, prefix=".new-"))
        try:
            sources = self._settings.package_sources
            fetched = await asyncio.to_thread(origins.fetch, address, sources, scratch, budget)
            if address.is_wheel:
                name, content = fetched.name, await asyncio.to_thread(fetched.read_bytes)
            else:
                name, content = await self._build(installer, environment, fetched, budget)
            return await asyncio.to_thread(_keep, home, name, content, address)
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, True)

    async def _build(
        self, installer: Installer, environment: Environment, source: Path, budget: Budget
    ) -> tuple[str, bytes]:
        """Name and bytes of a wheel. The source runs in this sandbox only, which has no network and no secrets."""
        builder = self._builder
        if builder is None:
            raise InstallFailed("no_build", f"{BEHIND}, which is for Linux; name a wheel instead")
        python = str(environment.python) if installer is builder else None
        alone = await asyncio.to_thread(builder.environment, Policy(packages="none"), None, python)
        try:
            async with self._open_sandbox(Spec(str(uuid.uuid4()), alone, Limits(**LIMITS))) as sandbox:
                return await _built_in(sandbox, source, budget)
        except EngineUnavailable as failure:
            raise InstallFailed("no_build", f"{BEHIND}, and they do not hold here: {failure}") from None
        except FileError as failure:
            raise InstallFailed("no_build", f"its build could not be used: {failure}") from None


async def _built_in(sandbox: BuildSandbox, source: Path, budget: Budget) -> tuple[str, bytes]:
    archive = f"archive{'.zip' if source.suffix == '.zip' else '.tar.gz'}"
    await sandbox.workspace.write(archive, await asyncio.to_thread(source.read_bytes))
    if (await _run(sandbox, RECIPE.read_text("utf-8") + "\nHAS_TOML", budget)).value is not True:
        await _bring(sandbox, ["tomli"])
    await _bring(sandbox, (await _run(sandbox, f"unpack({archive!r})", budget)).value)
    await _bring(sandbox, (await _run(sandbox, "needs()", budget)).value)
    name = (await _run(sandbox, "build()", budget)).value
    if not isinstance(name, str) or "/" in name or not name.endswith(".whl") or len(name) > 200:
        raise InstallFailed("no_build", "its build gave no wheel")
    return name, await whole(sandbox.workspace.read(f"wheels/{name}", budget.most_bytes))


async def _bring(sandbox: BuildSandbox, named: Any) -> None:
    """Install what a source wants for its build: names, and no addresses."""
    from belljar.packages.requirements import check

    if not isinstance(named, list):
        raise InstallFailed("no_build", "it does not say what its build needs")
    try:
        wanted = check(named, "build requirements")
    except InvalidRequest as failure:
        raise InstallFailed("no_build", f"its build needs what cannot be installed: {failure}") from None
    if wanted:
        await sandbox.install(wanted)


async def _run(sandbox: BuildSandbox, code: str, budget: Budget) -> Execution:
    budget.check_time()
    seconds = max(1.0, min(300.0, budget.until - time.monotonic()))
    done = await sandbox.run(RunRequest(code, seconds))
    if done.status != "ok" or done.exit_code:
        error = done.error
        said = done.stderr.strip().splitlines()[-3:]
        shown = f"{error.name}: {error.value}" if error is not None else "; ".join(said)
        raise InstallFailed("too_slow" if done.status == "timeout" else "no_build", f"its build failed: {shown[:500]}")
    return done


def _keep(home: Path, name: str, content: bytes, address: Address) -> str:
    """Put a wheel where installers find it, once it was looked at."""
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    from belljar.packages.wheels import check_foreign

    try:
        distribution = str(parse_wheel_filename(name)[0])
    except InvalidWheelFilename as failure:
        raise InstallFailed("refused", str(failure)) from None
    if address.name not in (None, distribution):
        raise InstallFailed("refused", f"it is {distribution!r}, not {canonicalize_name(address.name or '')!r}")
    _forget_old(home)
    folder = hashlib.sha256(name.encode() + b"\0" + content).hexdigest()[:24]
    fresh = Path(tempfile.mkdtemp(dir=home, prefix=".new-"))
    try:
        (fresh / name).write_bytes(content)
        check_foreign(fresh / name)
        (fresh / FACTS).write_text(json.dumps({"name": distribution, "wheel": name}), "utf-8")
        if not (home / folder / FACTS).exists():
            fresh.rename(home / folder)
    except OSError as failure:
        if not (home / folder / FACTS).exists():  # else another process was faster
            raise PackageError(f"the wheel could not be kept: {failure}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _forget_old(home: Path) -> None:
    """Remove wheels that were not asked for in a long time, and what a killed process left."""
    for place in [*home.glob(f"*/{FACTS}"), *home.glob(".new-*")]:
        try:
            if time.time() - place.stat().st_mtime > KEPT_S:
                shutil.rmtree(place.parent if place.name == FACTS else place, ignore_errors=True)
        except OSError:
            continue
