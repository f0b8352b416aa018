"""Joins our scripts to one for each thread of a sandbox: Deno takes a third of a millisecond for each that it loads.

They are written so that this is simple: all in one folder, with named imports and with exports where they are declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from belljar.errors import StartFailed

_IMPORT = re.compile(r'^(.*?)import (?:\{([^{}]*)\} from )?"\./([a-z]+)\.js";', re.MULTILINE)
_EXPORT = re.compile(
    r"^((?:/\*\*(?:(?!\*/).)*\*/ )*)export ((?:async )?function\*?|class|const) ([\w$]+)", re.MULTILINE | re.DOTALL
)
_LEFT = re.compile(r"^(?:.*\*/ )?(?:import [{\"*]|export )", re.MULTILINE)


def bundled(scripts: Mapping[str, str], first: str) -> str:
    """The script of that name with all that it imports, by name without its suffix, each in a scope of its own.

    Raises:
        StartFailed: when one of them is not written as this understands it.
    """
    joined: dict[str, str] = {}
    _join(scripts, first, joined, ())
    return "\n".join(joined.values())


def _join(scripts: Mapping[str, str], name: str, joined: dict[str, str], importers: tuple[str, ...]) -> None:
    """Add a script after those that it imports."""
    if name in importers:
        raise StartFailed(f"scripts of the runtime import each other: {' '.join((*importers, name))}")
    script = scripts.get(name)
    if script is None:
        raise StartFailed(f"{importers[-1]}.ts imports {name}.ts, which is not there")
    for _, _, imported in _IMPORT.findall(script):
        if imported not in joined:
            _join(scripts, imported, joined, (*importers, name))
    script = _IMPORT.sub(lambda found: found[1] + _taken(scripts, found[2] or "", found[3]), script)
    script = _EXPORT.sub(r"\1\2 \3", script)
    if _LEFT.search(script):
        raise StartFailed(f"{name}.ts imports or exports in a way that cannot be bundled")
    if importers:
        script = f"const {name}_ = (() => {{\n{script}\nreturn {{ {', '.join(_exported(scripts[name]))} }};\n}})();"
    joined[name] = script


def _taken(scripts: Mapping[str, str], names: str, source: str) -> str:
    wanted = [name.split(" as ") for name in map(str.strip, names.split(",")) if name]
    if unknown := {name[0] for name in wanted}.difference(_exported(scripts[source])):
        raise StartFailed(f"{source}.ts does not export {', '.join(sorted(unknown))}")
    return f"const {{ {', '.join(': '.join(name) for name in wanted)} }} = {source}_;"


def _exported(script: str) -> list[str]:
    return [name for _, _, name in _EXPORT.findall(script)]
