"""A head start for a command that will need a sandbox: its jail comes up while the rest is still being imported."""

from __future__ import annotations

import sys

from belljar.errors import SandboxError
from belljar.packages import base
from belljar.packages.environment import default_python
from belljar.settings import Settings


def head_start(engine: str) -> None:
    """Launch what an ordinary sandbox of this engine will ask for. Failures are left to the sandbox to tell."""
    if engine not in ("auto", "native") or sys.platform != "linux":
        return
    from belljar.engines.native import launch

    python, cache = default_python(), Settings.load().cache_dir
    if base.is_prepared(python, cache):
        try:
            launch.begin_early(base.base_environment(python, cache), cache)
        except SandboxError:
            return
