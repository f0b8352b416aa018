"""The import contract, read from the source itself: who may import whom, and what nobody may import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parent.parent / "src"

# From the outermost layer to the innermost: a module may import its own layer and those after it.
LAYERS = [
    {"surfaces", "testing"},
    {"attacks"},
    {"sandbox", "async_sandbox", "files", "grants", "options"},
    {"compose"},
    {"host", "headstart"},
    {"engines"},
    {"packages", "state", "store", "egress"},
    {"execution", "limits", "policy", "settings", "background", "checks", "mounts"},
    {"errors"},
]
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ENGINES = {"native", "wasm", "container", "unconfined"}
LOADS_CODE_FROM_DATA = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "multiprocessing", "joblib"}
FORKS = {"os.fork", "os.forkpty", "pty.fork"}
RUN_INSIDE = {  # sent into a sandbox or its interpreter as text; never imported on the host
    SRC / "belljar/engines/native/probes.py",
    SRC / "belljar/engines/wasm/runtime/compiled.py",
}


def modules(package: str) -> list[Path]:
    return sorted((SRC / package).rglob("*.py"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs; what only the type checker reads is left out."""
    for child in ast.iter_child_nodes(node):
        if not is_type_checking(child):
            yield child
            yield from statements(child)


def imports(path: Path) -> set[str]:
    """Absolute dotted names of everything that a module imports, at its top or later."""
    package = path.relative_to(SRC).with_suffix("").parts[:-1]
    found = set()
    for node in statements(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


def roots(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def layer(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "belljar" and len(parts) > 1 and parts[1] in RANKS else None


def test_imports_point_from_the_surfaces_to_the_values() -> None:
    for path in modules("belljar"):
        own = layer(".".join(path.relative_to(SRC).with_suffix("").parts))
        rank = RANKS[own] if own else -1
        assert not {name for name in imports(path) if (other := layer(name)) and RANKS[other] < rank}, path


def test_every_module_of_belljar_belongs_to_a_layer() -> None:
    names = {path.relative_to(SRC / "belljar").with_suffix("").parts[0] for path in modules("belljar")}
    assert names - {"__init__", "__main__"} <= set(RANKS)


def test_engines_do_not_know_each_other() -> None:
    for engine in ENGINES:
        for path in modules(f"belljar/engines/{engine}"):
            others = {f"belljar.engines.{other}" for other in ENGINES - {engine}}
            assert not [name for name in imports(path) if name.startswith(tuple(others))], path


def test_surfaces_do_not_import_engines() -> None:
    for path in modules("belljar/surfaces"):
        assert not [name for name in imports(path) if name.startswith("belljar.engines")], path


def test_the_kernel_imports_only_the_standard_library() -> None:
    assert modules("belljar_kernel")
    for path in modules("belljar_kernel"):
        assert roots(path) <= sys.stdlib_module_names | {"belljar_kernel"}, path


def test_one_module_of_the_kernel_knows_what_lies_beside_it() -> None:
    assert [path.name for path in modules("belljar_kernel") if "belljar_inside" in path.read_text("utf-8")] == [
        "pickling.py"
    ]


def test_the_jail_imports_only_the_standard_library_and_the_kernel() -> None:
    assert modules("belljar_jail")
    for path in modules("belljar_jail"):
        assert roots(path) <= sys.stdlib_module_names | {"belljar_jail", "belljar_kernel"}, path


def test_nothing_on_the_host_turns_bytes_into_code() -> None:
    for path in set(modules("belljar")) - RUN_INSIDE:
        assert not roots(path) & LOADS_CODE_FROM_DATA, path
        calls = [node for node in statements(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        assert not {ast.unparse(call.func) for call in calls} & {"eval", "exec", "compile", "__import__"}, path


def test_the_library_never_forks_without_exec() -> None:
    for path in set(modules("belljar")) - RUN_INSIDE:
        assert not FORKS & imports(path), path
        nodes = statements(ast.parse(path.read_text("utf-8")))
        used = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
        assert not FORKS & used, path
