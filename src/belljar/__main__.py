"""`python -m belljar` is the `belljar` command."""

from belljar.surfaces.cli.app import entry

entry()
