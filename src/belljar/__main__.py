"""`python -m belljar` is the `belljar` command."""

from belljar.surfaces.cli.app import main

raise SystemExit(main())
