"""Packages from addresses: fetched by the host, built in a native sandbox without network, and installed as wheels."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from belljar.engines.base import Engine, Spec
from belljar.errors import EngineUnavailable, FileError, InvalidRequest, PackageError, SandboxError
from belljar.execution import Execution
from belljar.limits import Limits
from belljar.packages import origins, remembered
from belljar.packages.addresses import Address, parse_address
from belljar.packages.bounded import Budget
from belljar.packages.environment import Environment
from belljar.packages.failure import InstallFailed
from belljar.packages.modules import FACTS
from belljar.packages.requirements import check
from belljar.policy import Policy

if TYPE_CHECKING:
    from belljar.host.host import Host
    from belljar.host.session import Session

BEHIND = "a source is built behind the walls of the native engine"
RECIPE = Path(__file__).with_name("recipe.py")
LIMITS = {"memory_mb": 2048, "disk_mb": 1024, "processes": 64}
MOST_BYTES = 256 << 20  # of an archive that goes in, and of a wheel that comes out
KEPT_S = 30 * 86_400.0  # a wheel that was built is kept for so long after its last use


async def built(host: Host, engine: Engine, environment: Environment, text: str) -> str:
    """The requirement that has a wheel on this machine in place of an address. Made anew once a day.

    Raises:
        PackageError: with the reason.
    """
    settings = host.settings
    address = parse_address(text, settings.package_sources)
    home = settings.cache_dir / "environments" / "built"
    key = remembered.key(environment.ground.digest, engine.name, [text])
    folder = remembered.recall(home, key, settings)
    if folder is None:
        budget = Budget.of(settings.install_timeout_s, min(settings.install_mb * 1_000_000, MOST_BYTES))
        try:
            folder = await _make(host, engine, environment, address, home, budget)
        except (SandboxError, OSError) as failure:
            kind = failure.kind if isinstance(failure, InstallFailed) else "unknown"
            folder = remembered.recall(home, key, None) if kind in ("unreachable", "too_slow") else None
            if folder is None:
                raise InstallFailed(kind, f"{text} could not be installed: {failure}") from None
        else:
            remembered.remember(home, key, folder, settings)
    facts = json.loads((home / folder / FACTS).read_text("utf-8"))
    os.utime(home / folder / FACTS)
    wheel = (home / folder / str(facts["wheel"])).as_uri()
    return f"{facts['name']} @ {wheel}"


async def _make(
    host: Host, engine: Engine, environment: Environment, address: Address, home: Path, budget: Budget
) -> str:  # fmt: skip
    """The name of the folder that has the wheel."""
    await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=home, prefix=".new-"))
    try:
        fetched = await asyncio.to_thread(origins.fetch, address, host.settings.package_sources, scratch, budget)
        if address.is_wheel:
            name, content = fetched.name, await asyncio.to_thread(fetched.read_bytes)
        else:
            name, content = await _build(host, engine, environment, fetched, budget)
        return await asyncio.to_thread(_keep, home, name, content, address)
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, True)


async def _build(
    host: Host, engine: Engine, environment: Environment, source: Path, budget: Budget
) -> tuple[str, bytes]:  # fmt: skip
    """Name and bytes of a wheel. The source runs in this sandbox only, which has no network and no secrets."""
    if sys.platform != "linux":
        raise InstallFailed("no_build", f"{BEHIND}, which is for Linux; name a wheel instead")
    native = host.registry.get("native")
    python = str(environment.python) if engine is native else None
    alone = await asyncio.to_thread(native.environment, Policy(packages="none"), None, python)
    spec = Spec(str(uuid.uuid4()), alone, Limits(**LIMITS))
    try:
        session = await host.create(native.name, spec)
    except EngineUnavailable as failure:
        raise InstallFailed("no_build", f"{BEHIND}, and they do not hold here: {failure}") from None
    try:
        archive = f"archive{'.zip' if source.suffix == '.zip' else '.tar.gz'}"
        await session.process.workspace.write(archive, await asyncio.to_thread(source.read_bytes))
        if (await _run(session, RECIPE.read_text("utf-8") + "\nHAS_TOML", budget)).value is not True:
            await _bring(session, ["tomli"])
        await _bring(session, (await _run(session, f"unpack({archive!r})", budget)).value)
        await _bring(session, (await _run(session, "needs()", budget)).value)
        name = (await _run(session, "build()", budget)).value
        if not isinstance(name, str) or "/" in name or not name.endswith(".whl") or len(name) > 200:
            raise InstallFailed("no_build", "its build gave no wheel")
        return name, await session.process.workspace.read(f"wheels/{name}", budget.most_bytes)
    except FileError as failure:
        raise InstallFailed("no_build", f"its build could not be used: {failure}") from None
    finally:
        await host.close_session(session)


async def _bring(session: Session, named: Any) -> None:
    """Install what a source wants for its build: names, as anybody may write them, and no addresses."""
    if not isinstance(named, list):
        raise InstallFailed("no_build", "it does not say what its build needs")
    try:
        wanted = check(named, "build requirements")
    except InvalidRequest as failure:
        raise InstallFailed("no_build", f"its build needs what cannot be installed: {failure}") from None
    if wanted:
        await session.install(wanted)


async def _run(session: Session, code: str, budget: Budget) -> Execution:
    from belljar.host.session import Run

    budget.check_time()
    seconds = max(1.0, min(300.0, budget.until - time.monotonic()))
    done = await session.run(Run(code, seconds))
    if done.status != "ok" or done.exit_code:
        error = done.error
        said = done.stderr.strip().splitlines()[-3:]
        told = f"{error.name}: {error.value}" if error is not None else "; ".join(said)
        raise InstallFailed("too_slow" if done.status == "timeout" else "no_build", f"its build failed: {told[:500]}")
    return done


def _keep(home: Path, name: str, content: bytes, address: Address) -> str:
    """Put a wheel where installers find it; what is in it is looked at when it is unpacked."""
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
    """Remove wheels that nobody asked for in a long time, and what a killed process left."""
    for place in [*home.glob(f"*/{FACTS}"), *home.glob(".new-*")]:
        try:
            if time.time() - place.stat().st_mtime > KEPT_S:
                shutil.rmtree(place.parent if place.name == FACTS else place, ignore_errors=True)
        except OSError:
            continue
