"""Starts a kernel in a process of its own: `python -I boot.py CHANNEL WORKSPACE KERNEL COMPANION [SITE]`.

CHANNEL is a descriptor; the others are folders: the workspace, and where the kernel, cloudpickle and packages are.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import NoReturn


def main(channel: str, workspace: str, kernel: str, companion: str, *site: str) -> NoReturn:
    """Serve on the channel. Of the kernel's folder nothing but the kernel can be imported, and no package hides it."""
    sys.argv = ["main.py"]
    sys.path.insert(0, kernel)
    from belljar_kernel.entry import prepare, serve

    sys.path[:] = [folder for folder in sys.path if folder != kernel]
    own = [at for at, folder in enumerate(sys.path) if folder.endswith(("site-packages", "dist-packages"))]
    sys.path[own[0] : own[0]] = site
    sys.modules["belljar_inside"] = package = ModuleType("belljar_inside")
    package.__path__ = [companion]
    serve(int(channel), prepare(workspace))


if __name__ == "__main__":
    main(*sys.argv[1:])
