"""Write src/belljar/packages/pins.json: python tools/pin_pyodide.py FOLDER

FOLDER holds the bundle wheel and Pyodide's tarball for Node, as the ordinary clients download them. What the index has
itself is asked of pip. Everything is compared with Pyodide's own lock file in the tarball before it is pinned.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from belljar.packages import pip

PINS = Path(__file__).parent.parent / "src" / "belljar" / "packages" / "pins.json"
VERSION = "314.0.3"
BUNDLE = "open_webui-0.12.4-py3-none-any.whl"
BUNDLE_FOLDER = "open_webui/frontend/pyodide"
CORE = ("pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide.mjs", "python_stdlib.zip")
ROOTS = (
    "numpy", "pandas", "scipy", "scikit-learn", "matplotlib", "seaborn", "requests", "httpx", "beautifulsoup4", "lxml",
    "openpyxl", "xlsxwriter", "pillow", "sympy", "pydantic", "regex", "tiktoken", "python-docx", "python-pptx", "anyio",
)  # fmt: skip
# Not in the bundle. jsonschema stays below 4.18: later ones need rpds-py, which has no build on the index.
FROM_INDEX = ("tabulate==0.10.0", "jsonschema==4.17.3", "pyrsistent==0.20.0", "attrs==26.1.0", "tzdata==2026.6")


def main() -> None:
    folder = Path(sys.argv[1])
    bundle, tarball = folder / BUNDLE, folder / f"pyodide-{VERSION}.tgz"
    with zipfile.ZipFile(bundle) as archive, tarfile.open(tarball) as official:

        def bundled(name: str) -> bytes:
            return archive.read(f"{BUNDLE_FOLDER}/{name}")

        def from_node(name: str) -> bytes:
            member = official.extractfile(f"package/{name}")
            assert member is not None
            return member.read()

        core = {name: bundled(name) for name in CORE}
        assert core == {name: from_node(name) for name in CORE}, "the bundle's Pyodide is not the official one"
        upstream, lock = json.loads(from_node("pyodide-lock.json")), json.loads(bundled("pyodide-lock.json"))
        assert upstream["info"] == lock["info"]
        entries = [lock["packages"][name] for name in closure(lock["packages"])]
        wheels = {entry["file_name"]: bundled(entry["file_name"]) for entry in entries}
        for entry in entries:
            assert digest(wheels[entry["file_name"]]) == entry["sha256"], entry["name"]
            assert upstream["packages"].get(entry["name"], entry) == entry, entry["name"]

    singles: dict[str, bytes] = {}
    for requirement in FROM_INDEX:
        singles |= on_index(requirement)
    rows = {name: [digest(content), len(content), "bundle"] for name, content in wheels.items()}
    for entry in entries:
        name = entry["file_name"]
        if on_index(f"{entry['name']}=={entry['version']}").get(name) == wheels[name]:
            rows[name].append("index")
    rows |= {name: [digest(content), len(content), "index"] for name, content in singles.items()}
    write(
        {
            "pyodide": VERSION,
            "info": lock["info"],
            "bundle": {BUNDLE: pin(bundle)},
            "bundle_folder": BUNDLE_FOLDER,
            "tarball": {tarball.name: pin(tarball)},
            "core": {name: [digest(content), len(content), "bundle"] for name, content in core.items()},
            "wheels": rows,
        }
    )


def closure(packages: dict[str, dict[str, list[str]]]) -> list[str]:
    """The roots and everything that they depend on."""
    found: set[str] = set()
    left = list(ROOTS)
    while left:
        name = left.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            left += packages[name]["depends"]
    return sorted(found)


def on_index(requirement: str) -> dict[str, bytes]:
    """The wheel that pip downloads for the wasm engine, if any."""
    with tempfile.TemporaryDirectory() as into:
        argv = [*pip.command(), "download", "--quiet", "--no-deps", "--dest", into, *pip.FOR_WASM, requirement]
        subprocess.run(argv, check=False, stderr=subprocess.DEVNULL)
        return {path.name: path.read_bytes() for path in Path(into).glob("*.whl")}


def pin(path: Path) -> list[str | int]:
    return [digest(path.read_bytes()), path.stat().st_size]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write(data: dict[str, object]) -> None:
    """One file per line, so that a change can be read."""
    parts = []
    for key, value in data.items():
        if isinstance(value, dict) and key != "info":
            rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(value.items()))
            parts.append(f'  "{key}": {{\n{rows}\n  }}')
        else:
            parts.append(f'  "{key}": {json.dumps(value)}')
    PINS.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
