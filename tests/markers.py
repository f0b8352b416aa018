"""Which markers a test has, derived from where it lies, which fixtures it asks for and which engine it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ENGINES = ("native", "wasm")

# Where a test starts walls unless its file is named in ALONE; with the engine, where it is always one.
WALLED: dict[str, tuple[str, ...]] = {
    "api": (),
    "benchmarks": (),
    "checklist": (),
    "conformance": (),
    "durability": ("native",),
    "mounts": (),
    "native": ("native",),
    "reliability": (),
    "security": (),
    "state": (),
    "wasm": ("wasm",),
}
ALONE = {  # start nothing, or only in those tests that ask for a fixture below
    *("benchmarks/test_benchmarks.py", "checklist/test_coverage.py", "conformance/test_suite.py"),
    "conformance/test_without_walls.py",
    *("durability/test_admission.py", "durability/test_history.py", "mounts/test_folders.py", "mounts/test_mounts.py"),
    *(f"native/test_{name}.py" for name in ("copying", "hugepages", "layout", "link", "packing", "program_layout")),
    *("native/test_removal.py", "reliability/test_denials.py", "reliability/test_overflow.py"),
    *(f"security/test_{name}.py" for name in ("oracles", "program_filter", "seccomp")),
    *("state/test_envelope.py", "state/test_keys.py"),
    *(f"wasm/test_{name}.py" for name in ("binary", "bundle", "pack")),
}
WALLESS = "unconfined"  # whose fixtures have the names of others, and start nothing that has walls
# What `make test` leaves to `make test-long`, as it takes long and little that others do not touch would break it.
LONG = {
    *("api/test_sources.py", "cli/test_packages.py", "reliability/test_many.py", "reliability/test_soak.py"),
    *("durability/test_hostile.py", "packages/test_layers.py", "security/test_packages.py"),
    *("security/test_wasm_bare.py", "state/test_engines.py"),
}
# What needs no walls and yet takes its time: `make quick` leaves it to `make test`.
SLOW = {"conformance/test_without_walls.py", "egress/test_caps.py", "kernel/test_hostile.py", "packages/test_index.py"}
# Fixtures that start an engine, or that need what `make setup` prepares for one.
FIXTURES: dict[str, tuple[str, ...]] = {
    "native": ("native",),
    "sandbox": ("native",),
    "mounted": (),
    "apart": (),
    "science": (),
    "wasm": ("wasm",),
    "real": ("wasm",),
}
# Parameters whose value is the engine that the test starts, wherever it lies.
GIVEN = {"engine", "installer", "kind", "mounted"}


def mark(item: pytest.Item) -> None:
    """Mark a test: `engine` when it starts walls or needs a prepared environment, which engine it is about, and `long`."""
    before = {mark.name for mark in item.iter_markers()}
    found = before & {"engine", *ENGINES}
    place = item.path.relative_to(TESTS)
    if place.as_posix() not in ALONE and place.parts[0] in WALLED:
        found |= {"engine", *WALLED[place.parts[0]]}
    for fixture in getattr(item, "fixturenames", ()):
        found |= {"engine", *FIXTURES[fixture]} if fixture in FIXTURES and place.parts[0] != WALLESS else set()
    if found or GIVEN & {name for name, value in values(item).items() if value in ENGINES}:
        found |= {
            "engine",
            *(value for value in values(item).values() if value in ENGINES),
            *({"wasm"} if "wasm" in place.stem else ()),
        }
    if "engine" in found and not found.intersection(ENGINES):
        found.add("native")  # it takes the best one, or none by name
    if place.as_posix() in LONG:
        found.add("long")
    if place.as_posix() in SLOW:
        found.add("slow")
    for name in sorted(found - before):
        item.add_marker(name)


def values(item: pytest.Item) -> dict[str, str]:
    """The texts that a parametrised test is given, or its fixtures, by the names of these."""
    call = getattr(item, "callspec", None)
    given = call.params if call is not None else {}
    return {name: value for name, value in given.items() if isinstance(value, str)}
