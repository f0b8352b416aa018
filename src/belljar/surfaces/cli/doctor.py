"""`belljar doctor`: what this machine can hold, wall by wall, and the exact fix for what it cannot."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from belljar.surfaces.cli.wording import one_line

if TYPE_CHECKING:
    from argparse import Namespace

    from belljar.health import EngineHealth


def command(options: Namespace) -> int:
    """Print the report; fail when there is no engine for `auto`."""
    from belljar import compose

    report = describe(compose.health(), compose.auto_engine())
    if options.json:
        import json

        print(json.dumps(report))
    else:
        draw(report)
    return 0 if report["auto"] else 1


def describe(engines: list[EngineHealth], auto: str | None) -> dict[str, Any]:
    """Everything the report says, as plain data."""
    import platform
    from dataclasses import asdict

    from belljar import __version__, compose
    from belljar.settings import Settings

    settings = Settings.load()
    is_prepared = auto is not None and compose.is_prepared(auto)
    return {
        "belljar": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "auto": auto,
        "cache_dir": str(settings.cache_dir),
        "base_environment": "prepared" if is_prepared else "not prepared; `belljar packages sync` does it",
        "engines": [asdict(health) | {"usable": health.usable(settings.allow_degraded)} for health in engines],
    }


def draw(report: dict[str, Any]) -> None:
    """The report for people. Lines are never wrapped: a fix is there to be copied."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for engine in report["engines"]:
        state = _state(engine)
        console.print(Text.assemble((engine["engine"], "bold"), ": ", state))
        width = max((len(layer["name"]) for layer in engine["layers"]), default=0)
        for layer in engine["layers"]:
            mark = ("holds  ", "green") if layer["holds"] else ("missing", "red")
            console.print(Text.assemble("  ", mark, f"  {layer['name']:<{width}}  {one_line(layer['detail'])}"))
            if layer["fix"] and not layer["holds"]:
                console.print(Text.assemble("           ", ("fix: " + one_line(layer["fix"]), "yellow")))
        console.print()
    auto = report["auto"] or Text("no engine holds on this machine", "red")
    console.print(Text.assemble((f"{'auto':<17}", "bold"), auto))
    for key in ("belljar", "python", "system", "cache_dir", "base_environment"):
        console.print(Text.assemble((f"{key.replace('_', ' '):<17}", "bold"), report[key]))


def _state(engine: dict[str, Any]) -> tuple[str, str]:
    """What the engine does on this machine, and the colour for it."""
    if engine["usable"]:
        return "available", "green"
    return ("refuses to start, because a wall is missing" if engine["available"] else "not available"), "red"
