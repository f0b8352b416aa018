"""What the wasm engine's packages are, to the byte: every file with its size and sha256, from `pins.json`.

`tools/pin_pyodide.py` writes that file; nothing here is taken from anywhere else.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from importlib import resources

from belljar.packages.names import normal


@dataclass(frozen=True)
class Pin:
    """One file that is wanted. `in_bundle` and `on_index` say where a package index has it."""

    name: str
    sha256: str
    size: int
    in_bundle: bool = False
    on_index: bool = False

    @property
    def requirement(self) -> str:
        """`name==version` of a wheel."""
        name, version = self.name.split("-")[:2]
        return f"{normal(name)}=={version}"


@dataclass(frozen=True)
class Pins:
    """Pyodide's own files, the wheels, and two archives that carry some of them."""

    version: str
    info: dict[str, str]
    core: tuple[Pin, ...]
    wheels: tuple[Pin, ...]
    bundle: Pin
    bundle_folder: str
    tarball: Pin
    digest: str

    @property
    def files(self) -> tuple[Pin, ...]:
        return self.core + self.wheels


@functools.cache
def load() -> Pins:
    """The pins of this version of Belljar."""
    text = (resources.files("belljar.packages") / "pins.json").read_text("utf-8")
    data = json.loads(text)

    def pins(key: str) -> tuple[Pin, ...]:
        return tuple(
            Pin(name, sha256, size, "bundle" in where, "index" in where)
            for name, (sha256, size, *where) in sorted(data[key].items())
        )

    (bundle,), (tarball,) = pins("bundle"), pins("tarball")
    return Pins(
        version=data["pyodide"],
        info=data["info"],
        core=pins("core"),
        wheels=pins("wheels"),
        bundle=bundle,
        bundle_folder=data["bundle_folder"],
        tarball=tarball,
        digest=hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest(),
    )
