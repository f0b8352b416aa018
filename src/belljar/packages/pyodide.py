"""Pyodide and the science set for the wasm engine: fetched once, checked to the byte, unpacked, then only read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from belljar.errors import PackageError
from belljar.packages import pins as pinned
from belljar.packages.lock import alone
from belljar.packages.pins import Pin, Pins
from belljar.packages.progress import Progress, in_silence, part_of
from belljar.packages.sources.base import NotSet, Source, is_intact, missing
from belljar.packages.sources.index import Index
from belljar.packages.sources.node import Node
from belljar.packages.sources.web import cdn, mirror
from belljar.packages.sources.wheelhouse import Wheelhouse
from belljar.packages.wheels import unpack
from belljar.settings import Settings

GENERATION = "1"  # counts up when what is unpacked from the same files changes
FACTS = "set.json"


@dataclass(frozen=True)
class PyodideSet:
    """What a wasm sandbox runs on and imports from.

    `core` has Pyodide's own five files, `site` the unpacked packages, `packages` their `name==version`, and `modules`
    says which of them an import name belongs to.
    """

    core: Path
    site: Path
    digest: str
    packages: tuple[str, ...]
    modules: Mapping[str, str]


def pyodide_set(cache_dir: Path, settings: Settings, progress: Progress | None = None) -> PyodideSet:
    """The set of this version of Belljar, fetched and unpacked if it is not there yet.

    Raises:
        PackageError: naming every source that was tried, why it did not help, and what to set.
    """
    folder = _folder(cache_dir)
    if not (folder / FACTS).exists():
        tell = progress or in_silence
        with alone(
            folder.with_suffix(".lock"), lambda: tell("Waiting for another process that prepares Pyodide", None)
        ):
            if not (folder / FACTS).exists():
                _prepare(pinned.load(), sources(pinned.load(), settings), folder, tell)
    facts = json.loads((folder / FACTS).read_text("utf-8"))
    return PyodideSet(folder / "core", folder / "site", digest(), tuple(facts["packages"]), facts["modules"])


def is_prepared(cache_dir: Path) -> bool:
    """Whether pyodide_set() would return at once."""
    return (_folder(cache_dir) / FACTS).exists()


def known_modules(cache_dir: Path) -> dict[str, str]:
    """Import names of the set and the distributions they belong to; nothing when it is not prepared."""
    try:
        found: dict[str, str] = json.loads((_folder(cache_dir) / FACTS).read_text("utf-8"))["modules"]
    except FileNotFoundError:
        return {}
    return found


def digest() -> str:
    """A short name for the content of the set, known before it is there."""
    return hashlib.sha256(f"{GENERATION}\0{pinned.load().digest}".encode()).hexdigest()[:16]


def sources(pins: Pins, settings: Settings) -> list[Source]:
    """Where to look, nearest first. The CDN comes twice: its address is known only once the core is there."""
    own = cdn(pins)
    return [Wheelhouse(settings.wheelhouse, pins), mirror(settings.pyodide_mirror), own, Index(pins), Node(pins), own]


def gather(wanted: Sequence[Pin], among: Sequence[Source], into: Path, progress: Progress) -> None:
    """Ask one source after the other until every file is there.

    Raises:
        PackageError: naming every source and why it did not help.
    """
    failures: dict[str, str] = {}
    for source in among:
        left = missing(wanted, into)
        if not left:
            return
        try:
            source.fetch(left, into, progress)
        except (PackageError, OSError) as error:
            failures[source.name] = str(error)
            if not isinstance(error, NotSet):
                progress(f"Not from {source.name}: {error}", None)
    left = missing(wanted, into)
    if left:
        reasons = "".join(f"\n  {name}: {reason}" for name, reason in failures.items())
        raise PackageError(
            f"Pyodide and its packages could not be fetched; {len(left)} of {len(wanted)} files are missing."
            f" Tried in this order:{reasons}\nSet up pip for an index that can be reached, or set BELLJAR_WHEELHOUSE to"
            " a folder with the files, or BELLJAR_PYODIDE_MIRROR to an address that serves them (docs/packages.md)"
        )


def _folder(cache_dir: Path) -> Path:
    return cache_dir.absolute() / "wasm" / f"pyodide-{digest()}"


def _prepare(pins: Pins, among: Sequence[Source], folder: Path, progress: Progress) -> None:
    """Fetch into a folder that outlives a failure, so that a second try goes on; unpack beside it; rename."""
    fetched = folder.with_name(f".fetched-{folder.name}")
    fetched.mkdir(parents=True, exist_ok=True)
    for left_over in folder.parent.glob(f".new-{folder.name}-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".new-{folder.name}-"))
    try:
        progress("Preparing Pyodide and its packages (once)", 0.0)
        for pin in pins.files:
            if not is_intact(pin, fetched / pin.name):
                (fetched / pin.name).unlink(missing_ok=True)
        gather(pins.files, among, fetched, part_of(progress, 0.0, 0.8))
        _assemble(pins, fetched, fresh, part_of(progress, 0.8, 1.0))
        fresh.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        shutil.rmtree(fetched, ignore_errors=True)
        progress("Pyodide is ready", 1.0)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _assemble(pins: Pins, fetched: Path, fresh: Path, progress: Progress) -> None:
    """Lay out core, site and facts from files that were all checked."""
    core, site = fresh / "core", fresh / "site"
    core.mkdir()
    site.mkdir()
    for pin in pins.core:
        os.replace(fetched / pin.name, core / pin.name)
    # Pyodide wants a lock file. Ours names no package: they are mounted, and none is ever fetched from inside.
    (core / "pyodide-lock.json").write_text(json.dumps({"info": pins.info, "packages": {}}), "utf-8")
    modules: dict[str, str] = {}
    for count, pin in enumerate(pins.wheels):
        name = pin.requirement.partition("==")[0]
        progress(f"Unpacking {name}", count / len(pins.wheels))
        modules |= dict.fromkeys(unpack(fetched / pin.name, site).modules, name)
    facts = {"packages": sorted(pin.requirement for pin in pins.wheels), "modules": dict(sorted(modules.items()))}
    (fresh / FACTS).write_text(json.dumps(facts, indent=0), "utf-8")
