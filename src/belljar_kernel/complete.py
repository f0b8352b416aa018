"""How code may go on at the cursor: live names, and names that the code itself imports. Runs no user code."""

from __future__ import annotations

import builtins
import keyword
import re
import sys

from belljar_kernel import static

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Found = dict[str, str]

OFFERED = 500
_LINES, _LINE_CHARS = 2000, 500  # the patterns below may take the square of a line
_DOTTED = re.compile(r"((?:[^\W\d]\w*\s*\.\s*)*)([^\W\d]\w*)?$")
_FROM = re.compile(r"\bfrom\s+([\w.]+)\s+import\s+(?:\(\s*)?(?:[\w\s,]*,\s*)?(\w*)$")
_IMPORT = re.compile(r"(?:^|[;\n])\s*(?:import|from)\s+(?:[\w.\s,]*,\s*)?([\w.]*)$")
_COLUMN = re.compile(r"([^\W\d]\w*)\s*\[\s*\[?\s*(?:[\"'][^\"'\n]*[\"']\s*,\s*)*([\"'])([^\"'\n]*)$")
_IMPORTED = re.compile(r"(?:^|[;\n])[ \t]*import[ \t]+([^\n;#]+)")
_FROM_IMPORTED = re.compile(r"(?:^|[;\n])[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]*\(?([^\n;#)]+)")
_BOUND = re.compile(
    r"(?:^|[;\n:])[ \t]*((?:[^\W\d]\w*[ \t]*,[ \t]*)*[^\W\d]\w*)[ \t]*(?::[^=\n]+)?=(?!=)"
    r"|\bfor\s+([\w, \t]+?)\s+in\b|\bas\s+([^\W\d]\w*)|\b([^\W\d]\w*)[ \t]*:="
)
_DEFINED = re.compile(r"(?:^|[;\n])[ \t]*(?:async[ \t]+)?(def|class)[ \t]+([^\W\d]\w*)(?:[ \t]*\(([^)\n]*)\))?")
_SIDE_EFFECTS = {"this", "antigravity", "idlelib", "turtledemo", "test", "lib2to3"}


def complete(namespace: dict[str, Any], code: object, cursor: object, workspace: str) -> list[dict[str, Any]]:
    """The completions at a cursor, which is an index in characters; none for what cannot be understood."""
    if type(code) is not str or type(cursor) is not int:
        return []
    cursor = max(0, min(cursor, len(code)))
    try:
        found, prefix = _Completer(namespace, code, workspace).at(code[:cursor])
    except Exception:
        return []
    chosen = sorted((name for name in found if name.startswith(prefix)), key=lambda name: (name.startswith("_"), name))
    if not prefix.startswith("_"):
        chosen = [name for name in chosen if not name.startswith("_")]
    start = cursor - len(prefix)
    return [{"text": name, "start": start, "end": cursor, "type": found[name]} for name in chosen[:OFFERED]]


class _Completer:
    def __init__(self, namespace: dict[str, Any], code: str, workspace: str) -> None:
        self._namespace = namespace
        self._code = _short_lines(code)
        self._workspace = workspace

    def at(self, before: str) -> tuple[Found, str]:
        """All that may come, and the part of it that is there already."""
        line = before.rpartition("\n")[2][-_LINE_CHARS:]
        if column := _COLUMN.search(line):
            return self._columns(column[1]), column[3]
        if _in_string_or_comment(line):
            return {}, ""
        if source := _FROM.search(line):
            return self._attributes(self._module(source[1])), source[2]
        if module := _IMPORT.search(line):
            return self._modules(module[1]), module[1].rpartition(".")[2]
        match = _DOTTED.search(line)
        if match is None:
            return {}, ""
        prefix = match[2] or ""
        path = [part.strip() for part in match[1].split(".")[:-1]]
        if path:
            return self._attributes(self._resolve(path)), prefix
        if line[: match.start()].rstrip().endswith(".") or (
            not prefix and line[-1:] and line[-1] in "0123456789)]}\"'"
        ):
            return {}, ""
        return self._names(prefix), prefix

    def _names(self, prefix: str) -> Found:
        found: Found = {name: static.kind_of(value) for name, value in vars(builtins).items()}
        found.update((word, "keyword") for word in (*keyword.kwlist, *keyword.softkwlist))
        found.update(_names_in(self._code, prefix))
        for name, value in list(self._namespace.items()):
            if type(name) is str:
                found[name] = static.kind_of(value)
        return found

    def _attributes(self, value: object) -> Found:
        if value is static.ABSENT:
            return {}
        return {name: static.kind(value, name) for name in static.names(value, self._workspace) if name.isidentifier()}

    def _columns(self, name: str) -> Found:
        value = self._namespace.get(name)
        if type(value) is dict:
            return {key: "variable" for key in value if type(key) is str}
        if static.is_library_object(value, self._workspace):
            columns: Iterable[object] = getattr(value, "columns", ())
            return {column: "variable" for column in columns if type(column) is str}
        return {}

    def _modules(self, written: str) -> Found:
        parent, _, _ = written.rpartition(".")
        if parent:
            start = parent + "."
            below = {name[len(start) :].partition(".")[0] for name in sys.modules if name.startswith(start)}
            found = self._attributes(self._module(parent))
            return dict.fromkeys({*below, *(n for n in found if found[n] == "module")}, "module")
        loaded = {name.partition(".")[0] for name in list(sys.modules)}
        return {name: "module" for name in {*loaded, *sys.stdlib_module_names} if name.isidentifier()}

    def _resolve(self, path: list[str]) -> object:
        value = self._base(path[0])
        for name in path[1:]:
            if value is static.ABSENT:
                break
            value = static.attribute(value, name, self._workspace)
        return value

    def _base(self, name: str) -> object:
        imported = self._imported(name)
        if imported is not static.ABSENT:
            return imported
        if name in self._namespace:
            return self._namespace[name]
        return vars(builtins).get(name, static.ABSENT)

    def _imported(self, name: str) -> object:
        for match in _IMPORTED.finditer(self._code):
            for item in match[1].split(","):
                module, _, alias = (part.strip() for part in item.partition(" as "))
                if (alias or module.partition(".")[0]) == name:
                    return self._module(module if alias else module.partition(".")[0])
        for match in _FROM_IMPORTED.finditer(self._code):
            for item in match[2].split(","):
                attribute, _, alias = (part.strip() for part in item.partition(" as "))
                if (alias or attribute) == name:
                    return self._from(match[1], attribute)
        return static.ABSENT

    def _from(self, module: str, attribute: str) -> object:
        parent = self._module(module)
        found = static.ABSENT if parent is static.ABSENT else static.attribute(parent, attribute, self._workspace)
        return self._module(f"{module}.{attribute}") if found is static.ABSENT else found

    def _module(self, name: str) -> object:
        """A module that is loaded, or one of the standard library, whose import has no effect of its own."""
        if name in sys.modules:
            return sys.modules[name]
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names or top in _SIDE_EFFECTS:
            return static.ABSENT
        import importlib

        path = list(sys.path)
        try:
            sys.path[:] = [entry for entry in path if not str(entry).startswith(self._workspace)]
            return importlib.import_module(name)
        except BaseException:
            return static.ABSENT
        finally:
            sys.path[:] = path


def _short_lines(code: str) -> str:
    lines = code[-_LINES * _LINE_CHARS :].split("\n")[-_LINES:]
    return "\n".join(line for line in lines if len(line) <= _LINE_CHARS)


def _names_in(code: str, prefix: str) -> Found:
    found: Found = {}
    for match in _BOUND.finditer(code):
        names = next(group for group in match.groups() if group is not None)
        found.update((name.strip(), "variable") for name in names.split(","))
    for match in _DEFINED.finditer(code):
        found[match[2]] = "function" if match[1] == "def" else "class"
        if match[1] == "def" and match[3]:
            found.update((re.split(r"[:=]", name)[0].strip(" *"), "variable") for name in match[3].split(","))
    for match in _IMPORTED.finditer(code):
        for item in match[1].split(","):
            module, _, alias = (part.strip() for part in item.partition(" as "))
            found[alias or module.partition(".")[0]] = "module"
    for match in _FROM_IMPORTED.finditer(code):
        for item in match[2].split(","):
            attribute, _, alias = (part.strip() for part in item.partition(" as "))
            found[alias or attribute] = "variable"
    # The word at the cursor may look like an assignment of itself; it is no name yet.
    return {name: kind for name, kind in found.items() if name.isidentifier() and name != prefix}


def _in_string_or_comment(line: str) -> bool:
    quote, at = "", 0
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char == "#":
            return True
        at += 1
    return bool(quote)
