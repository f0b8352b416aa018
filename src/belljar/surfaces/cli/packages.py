"""`belljar packages`: what every sandbox has, and getting it ready ahead of the first one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from belljar.surfaces.cli.progress import progress

if TYPE_CHECKING:
    from argparse import Namespace


def command(options: Namespace) -> int:
    """List the base environment's packages, or prepare it."""
    from belljar.compose import base_environment, fetch_packages

    with progress() as report:
        environment = base_environment(options.engine, report)
        added = fetch_packages(options.engine, options.names, report) if options.action == "sync" else []
    packages = sorted(environment.packages, key=str.lower)
    if options.action == "sync":
        print(f"belljar: the base environment is ready: {len(packages)} packages", file=sys.stderr)
        for package in added:
            print(f"belljar: {package} can be added without an index", file=sys.stderr)
    elif options.json:
        import json

        print(json.dumps(packages))
    else:
        for package in packages:
            print(package)
    return 0
