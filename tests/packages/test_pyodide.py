"""The set as a whole: whatever the source, the same bytes; once there, nobody is asked again."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests import engines, probe
from tests.packages.conftest import BUNDLE, CORE, FILES, LITTLE, WHEELS, Serve, UseIndex, page

from belljar.errors import PackageError
from belljar.packages import pyodide
from belljar.packages.base import PREINSTALLED
from belljar.packages.names import NO_BUILD, normal
from belljar.packages.pins import Pins, load
from belljar.packages.pyodide import PyodideSet, is_prepared, pyodide_set
from belljar.settings import Settings

ROOT = Path(__file__).parent.parent.parent


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def offline(use_index: UseIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """No index, and no Deno that could fetch anything."""
    monkeypatch.setattr("belljar.packages.sources.node.find_program", _no_program)


def _no_program(name: str) -> str:
    raise PackageError(f"{name} is missing")


def test_a_wheelhouse_with_everything_is_enough(
    little: Pins, offline: None, settings: Settings, wheelhouse: Path
) -> None:
    assert not is_prepared(settings.cache_dir)
    made = pyodide_set(settings.cache_dir, replace(settings, wheelhouse=wheelhouse), None)
    folder = settings.cache_dir / "wasm" / f"pyodide-{made.digest}"
    assert made == PyodideSet(
        folder / "core",
        folder / "site",
        pyodide.digest(),
        ("apple==1.0", "pear-tree==2.0", "quince==3.0"),
        {"apple": "apple", "pear": "pear-tree", "quince": "quince"},
    )
    assert files_of(made.core) == {*CORE, "pyodide-lock.json"}
    assert files_of(made.site) >= {"apple/__init__.py", "pear/__init__.py", "pear/tests/__init__.py", "quince.py"}
    assert is_prepared(settings.cache_dir)
    assert files_of(wheelhouse) == set(FILES)


def test_the_lock_file_of_the_set_is_our_own_and_names_no_package(
    little: Pins, offline: None, settings: Settings, wheelhouse: Path
) -> None:
    (wheelhouse / "pyodide-lock.json").write_text('{"packages": {"evil": {}}}')
    made = pyodide_set(settings.cache_dir, replace(settings, wheelhouse=wheelhouse), None)
    assert json.loads((made.core / "pyodide-lock.json").read_text()) == {"info": LITTLE.info, "packages": {}}


def test_a_cache_named_relatively_is_the_same_place_for_every_client(
    little: Pins, settings: Settings, serve: Serve, use_index: UseIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archives = {LITTLE.bundle.name: BUNDLE, "quince-3.0-py3-none-any.whl": WHEELS["quince-3.0-py3-none-any.whl"]}
    pages = {f"simple/{name.partition('-')[0]}/": page(name) for name in archives}
    served = serve(pages | {f"files/{name}": content for name, content in archives.items()})
    use_index(f"{served.address}/simple")
    made = pyodide_set(Path("here"), settings, None)
    assert made.core == tmp_path / "here" / "wasm" / f"pyodide-{made.digest}" / "core"
    assert files_of(made.core) == {*CORE, "pyodide-lock.json"}


def test_the_second_use_asks_nobody(little: Pins, offline: None, settings: Settings, wheelhouse: Path) -> None:
    first = pyodide_set(settings.cache_dir, replace(settings, wheelhouse=wheelhouse), None)
    assert pyodide_set(settings.cache_dir, settings, None) == first


def test_a_mirror_with_everything_is_enough(little: Pins, offline: None, settings: Settings, serve: Serve) -> None:
    served = serve(dict(FILES))
    told: list[tuple[str, float | None]] = []
    mirrored = replace(settings, pyodide_mirror=served.address)
    pyodide_set(settings.cache_dir, mirrored, lambda message, done: told.append((message, done)))
    reached = [done for _, done in told if done is not None]
    assert reached == sorted(reached)
    assert told[-1] == ("Pyodide is ready", 1.0)
    assert any("Downloading apple" in message for message, _ in told)


def test_a_wrong_hash_is_refused_and_the_next_source_is_tried(
    little: Pins, offline: None, settings: Settings, wheelhouse: Path, serve: Serve
) -> None:
    name = "apple-1.0-py3-none-any.whl"
    (wheelhouse / name).write_bytes(WHEELS["quince-3.0-py3-none-any.whl"])
    served = serve(dict(FILES))
    told: list[str] = []
    both = replace(settings, wheelhouse=wheelhouse, pyodide_mirror=served.address)
    made = pyodide_set(settings.cache_dir, both, lambda message, _: told.append(message))
    assert (made.site / "apple" / "__init__.py").read_bytes() == b"x = 1"
    assert served.asked == [f"/{name}"]
    assert any(f"{name} from the wheelhouse is refused" in message for message in told)


def test_when_every_source_fails_each_is_named_with_its_reason(
    little: Pins, offline: None, settings: Settings, wheelhouse: Path, serve: Serve
) -> None:
    name = "apple-1.0-py3-none-any.whl"
    (wheelhouse / name).write_bytes(b"poison")
    served = serve({})
    with pytest.raises(PackageError) as caught:
        pyodide_set(settings.cache_dir, replace(settings, wheelhouse=wheelhouse, pyodide_mirror=served.address), None)
    said = str(caught.value)
    assert "1 of 7 files are missing" in said
    reasons = [
        rf"the wheelhouse: {name} from the wheelhouse is refused",
        f"the mirror: {name}: the answer is 404",
        "Pyodide's CDN: it cannot be reached",
        "the package index: pip said: ",
        "the Node package: it has no wheels",
    ]
    assert [reason for reason in reasons if reason not in said] == []
    assert [word for word in ("BELLJAR_WHEELHOUSE", "BELLJAR_PYODIDE_MIRROR") if word not in said] == []
    assert not is_prepared(settings.cache_dir)


def test_a_second_try_goes_on_where_the_first_stopped_but_trusts_nothing_it_left(
    little: Pins, offline: None, settings: Settings, wheelhouse: Path, serve: Serve
) -> None:
    name = "apple-1.0-py3-none-any.whl"
    (wheelhouse / name).unlink()
    with pytest.raises(PackageError):
        pyodide_set(settings.cache_dir, replace(settings, wheelhouse=wheelhouse), None)
    (kept,) = (settings.cache_dir / "wasm").glob(".fetched-*")
    (kept / "pyodide.mjs").write_bytes(b"changed in between")
    served = serve(dict(FILES))
    made = pyodide_set(settings.cache_dir, replace(settings, pyodide_mirror=served.address), None)
    assert sorted(served.asked) == [f"/{name}", "/pyodide.mjs"]
    assert (made.core / "pyodide.mjs").read_bytes() == CORE["pyodide.mjs"]
    assert list((settings.cache_dir / "wasm").glob(".*")) == []


PREPARE = """
import sys
from dataclasses import replace
from pathlib import Path
from belljar.packages import pins, pyodide
from belljar.settings import Settings
from tests.packages.conftest import LITTLE
pins.load = lambda: LITTLE
cache, wheelhouse = map(Path, sys.argv[1:])
settings = Settings(cache, cache, wheelhouse=wheelhouse)
made = pyodide.pyodide_set(cache, settings, lambda message, _: print(message))
assert (made.site / "quince.py").exists()
"""


def test_processes_that_prepare_at_once_do_it_once(little: Pins, settings: Settings, wheelhouse: Path) -> None:
    argv = [sys.executable, "-c", PREPARE, str(settings.cache_dir), str(wheelhouse)]
    running = [
        subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(4)
    ]
    said = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert sum("Pyodide is ready" in output for output in said) == 1


def test_the_digest_follows_the_pins(monkeypatch: pytest.MonkeyPatch, little: Pins) -> None:
    before = pyodide.digest()
    monkeypatch.setattr("belljar.packages.pins.load", lambda: replace(LITTLE, digest="other"))
    assert pyodide.digest() != before


def test_every_pin_is_complete_and_somewhere_to_be_had() -> None:
    pins = load()
    assert [pin.name for pin in pins.core] == [
        "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide.mjs", "python_stdlib.zip",
    ]  # fmt: skip
    for pin in (*pins.files, pins.bundle, pins.tarball):
        assert len(bytes.fromhex(pin.sha256)) == 32, pin
        assert pin.size > 0, pin
        assert "/" not in pin.name, pin
    assert [pin.name for pin in pins.files if not (pin.in_bundle or pin.on_index)] == []
    assert {pin.name.rpartition("-")[2] for pin in pins.wheels} == {"any.whl", "pyemscripten_2026_0_wasm32.whl"}


def test_what_every_native_sandbox_has_is_here_too_or_named_with_a_reason() -> None:
    here = {pin.requirement.partition("==")[0] for pin in load().wheels}
    wanted = {normal(name.partition(";")[0]) for name in PREINSTALLED}
    assert {name for name in wanted if name not in here} == {"pyyaml", "jinja2", "pandas-ta", "pip"}
    assert wanted - here <= NO_BUILD.keys()
    assert here.isdisjoint(NO_BUILD)


@pytest.fixture
def real() -> PyodideSet:
    """The real set, when `make setup` has prepared it."""
    settings = Settings.load()
    if not is_prepared(settings.cache_dir):
        engines.go_without("the wasm engine's packages are not prepared; `belljar packages sync --engine wasm` does it")
    return pyodide_set(settings.cache_dir, settings, None)


def test_the_real_set_has_the_science_stack_and_nothing_that_only_compilers_read(real: PyodideSet) -> None:
    assert files_of(real.core) == {pin.name for pin in load().core} | {"pyodide-lock.json"}
    assert {"numpy", "pandas", "matplotlib", "scipy", "sklearn", "PIL", "bs4", "sympy", "lxml"} <= real.modules.keys()
    assert real.modules["PIL"] == "pillow"
    assert [path for path in real.site.rglob("*") if path.suffix in (".h", ".a", ".pyi", ".pyx")] == []
    assert [name for name in real.modules if not list(real.site.glob(f"{name}*"))] == []
    assert len(real.packages) == len(load().wheels)


def test_the_real_loader_names_an_address(real: PyodideSet) -> None:
    address = probe.address_of(pyodide.cdn(load()), real.core)
    assert address.startswith("https://")
    assert address.endswith(f"/v{load().version}/full/")
