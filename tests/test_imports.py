"""The import contracts of pyproject.toml, read from the source itself, and what no module may import or call."""

from __future__ import annotations

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
LOADS_CODE_FROM_DATA = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "multiprocessing", "joblib"}
STANDARD = sys.stdlib_module_names | {"_typeshed"}  # which only the type checker has: stubs of the standard library
FORKS = {"os.fork", "os.forkpty", "pty.fork"}
RUN_INSIDE = {  # sent into a sandbox or its interpreter as text; never imported on the host
    SRC / "belljar/engines/native/probes.py",
    SRC / "belljar/engines/wasm/runtime/compiled.py",
}


@cache
def contracts() -> dict[str, dict[str, Any]]:
    """The contracts of import-linter, by id."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract for contract in written}


LAYERED = [name for name, contract in contracts().items() if contract["type"] == "layers"]


@cache
def ranks(contract: str) -> dict[str, int]:
    """The modules of a layered contract, by their place from the outermost layer; those in brackets may be missing."""
    found = {}
    for rank, layer in enumerate(contracts()[contract]["layers"]):
        for name in layer.split("|"):
            found[name.strip(" ()")] = rank
    return found


def member(dotted: str, names: dict[str, int]) -> str | None:
    """Which of these modules a name is, or lies in: the most particular one."""
    around = [name for name in names if f"{dotted}.".startswith(f"{name}.")]
    return max(around, key=len, default=None)


def modules(package: str) -> list[Path]:
    return sorted((SRC / package).rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Everything in a module, also what only the type checker reads."""
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))


@cache
def imports(path: Path) -> set[str]:
    """Absolute dotted names of everything that a module imports, at its top or later, or for the type checker."""
    package = path.relative_to(SRC).with_suffix("").parts[:-1]
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


def roots(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def against(contract: str, own: str, imported: set[str]) -> set[str]:
    """What a module imports although a layered contract puts it further out, or beside the module."""
    order = ranks(contract)
    here = member(own, order)
    if here is None:
        return set()
    return {
        name
        for name in imported
        if (there := member(name, order)) is not None and there != here and order[there] <= order[here]
    }


@pytest.mark.parametrize("contract", LAYERED)
def test_imports_point_inwards_as_the_contract_says(contract: str) -> None:
    for path in sorted(SRC.rglob("*.py")):
        assert not against(contract, dotted(path), imports(path)), path


def test_an_import_outwards_or_sideways_is_found() -> None:
    assert against("layers", "belljar.packages.uv", {"belljar.host.host"}) == {"belljar.host.host"}
    assert against("layers", "belljar.packages.uv", {"belljar.store.base.Store"}) == {"belljar.store.base.Store"}
    assert against("layers", "belljar.service.base", {"belljar.service.local"}) == {"belljar.service.local"}
    assert against("layers", "belljar.service.local", {"belljar.service.base", "os"}) == set()
    assert against("inside", "belljar_kernel.kernel", {"belljar.errors"}) == {"belljar.errors"}


def test_what_only_the_type_checker_reads_counts_as_an_import() -> None:
    assert "belljar.health.EngineHealth" in imports(SRC / "belljar/surfaces/cli/doctor.py")


def test_every_module_of_belljar_belongs_to_a_layer() -> None:
    order = ranks("layers")
    outside = {dotted(path) for path in modules("belljar") if member(dotted(path), order) is None}
    assert outside == {"belljar", "belljar.__main__", "belljar.service"}
    assert not (SRC / "belljar/service/__init__.py").read_text("utf-8")


def test_every_layer_has_a_module() -> None:
    there = {dotted(path) for path in modules("belljar")}
    assert [name for name in ranks("layers") if name not in there] == []


def test_engines_do_not_know_each_other() -> None:
    engines = [name for name, rank in ranks("engines").items() if rank == 0]
    assert {"belljar.engines.native", "belljar.engines.wasm"} <= {*engines}
    for path in modules("belljar/engines"):
        own = member(dotted(path), dict.fromkeys(engines, 0))
        others = tuple(f"{name}." for name in engines if name != own)
        assert own is None or not [name for name in imports(path) if f"{name}.".startswith(others)], path


def test_surfaces_do_not_import_engines() -> None:
    forbidden = tuple(f"{name}." for name in contracts()["surfaces"]["forbidden_modules"])
    assert modules("belljar/surfaces")
    assert forbidden == ("belljar.engines.",)
    for path in modules("belljar/surfaces"):
        assert not [name for name in imports(path) if f"{name}.".startswith(forbidden)], path


def test_the_kernel_imports_only_the_standard_library() -> None:
    assert modules("belljar_kernel")
    for path in modules("belljar_kernel"):
        assert roots(path) <= STANDARD | {"belljar_kernel"}, path


def test_one_module_of_the_kernel_knows_what_lies_beside_it() -> None:
    assert [path.name for path in modules("belljar_kernel") if "belljar_inside" in path.read_text("utf-8")] == [
        "pickling.py"
    ]


def test_the_jail_imports_only_the_standard_library_and_the_kernel() -> None:
    assert modules("belljar_jail")
    for path in modules("belljar_jail"):
        assert roots(path) <= STANDARD | {"belljar_jail", "belljar_kernel"}, path


def test_nothing_on_the_host_turns_bytes_into_code() -> None:
    for path in set(modules("belljar")) - RUN_INSIDE:
        assert not roots(path) & LOADS_CODE_FROM_DATA, path
        calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
        assert not {ast.unparse(call.func) for call in calls} & {"eval", "exec", "compile", "__import__"}, path


def test_the_library_never_forks_without_exec() -> None:
    for path in set(modules("belljar")) - RUN_INSIDE:
        assert not FORKS & imports(path), path
        used = {ast.unparse(node) for node in nodes(path) if isinstance(node, ast.Attribute)}
        assert not FORKS & used, path
