"""An environment: one CPython and one read-only folder of packages, named by its content; a layer may be on top."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from belljar_kernel.protocol import PACKAGES


@dataclass(frozen=True)
class Environment:
    """What a sandbox imports from.

    `site` is None for Python alone. `warm` names modules worth importing once, ahead of any sandbox. `layer` is a
    folder of packages that were added to `base` because `requirements` were asked for; when it replaces some of those
    beneath it, nothing that was imported ahead may be used (`is_warm`). `packages` has all of them, as `name==version`.
    The layer is not removed as long as somebody has this object, and so its `hold`.
    """

    python: Path
    site: Path | None = None
    digest: str = "bare"
    packages: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()
    layer: Path | None = None
    base: Environment | None = None
    requirements: tuple[str, ...] = ()
    is_warm: bool = True
    hold: object = field(default=None, compare=False, repr=False)

    @property
    def ground(self) -> Environment:
        """The environment beneath the layer, or this one."""
        return self.base or self

    @property
    def path(self) -> list[str]:
        """Folders that the kernel puts before the environment's own packages."""
        return [PACKAGES] if self.layer is not None else []


@functools.cache
def default_python() -> Path:
    """The CPython that this process runs on, without its virtual environment."""
    return Path(os.path.realpath(sys.executable))
