"""Packages of one's own: at the start, into a live sandbox, before a run, or simply by importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import engines, probe
from tests.shop import Shop, wheel

from belljar import InvalidRequest, PackageError, Policy, Sandbox, compose
from belljar.compose import LocalHost
from belljar.host.sandbox_packages import names_at_a_glance

Make = Callable[..., Sandbox]
# The host's part is the same for every engine; on wasm a few tests are enough, and the rest takes long.
mostly_native = pytest.mark.parametrize(
    "engine", ["native", pytest.param("wasm", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture(scope="module", params=["native", "wasm"])
def engine(request: pytest.FixtureRequest, apart: LocalHost, native: None) -> str:
    return engines.prepared(request.param, apart).name


@pytest.fixture(scope="module")
def shared(engine: str, apart: LocalHost) -> Iterator[Sandbox]:
    """One sandbox for all who do not mind what others brought into it."""
    with compose.using(apart), Sandbox(engine) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def stock() -> dict[str, bytes]:
    """What the shop has sold before: a sandbox that has it expects that it can be had again."""
    return {}


@pytest.fixture
def live(shared: Sandbox, shop: Shop, stock: dict[str, bytes]) -> Iterator[Sandbox]:
    """The shared sandbox, while the shop is open."""
    shop.sell(*stock.items())
    yield shared
    stock |= shop.files


@pytest.fixture
def make(engine: str, shop: Shop) -> Iterator[Make]:
    """Make sandboxes of an engine, whose only index is the shop."""
    made: list[Sandbox] = []

    def start(**options: object) -> Sandbox:
        made.append(Sandbox(engine, **options))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for sandbox in made:
        sandbox.close()


@mostly_native
def test_a_sandbox_is_made_with_packages_and_another_one_has_none_of_them(make: Make, shop: Shop) -> None:
    shop.sell(wheel("almond", "1.2", {"almond/__init__.py": "taste = 'sweet'"}))
    assert make(packages=["almond"]).run("import almond; almond.taste").value == "sweet"
    assert make(policy=Policy(packages=[])).run("import almond").error.code == "MODULE_NOT_FOUND"


def test_installing_into_a_live_sandbox_keeps_variables_files_and_environment(make: Make, shop: Shop) -> None:
    shop.sell(wheel("beech", "1.0", {"beech.py": "x = 1"}), wheel("birch", "2.0", {"birch.py": "x = 2"}, ["beech"]))
    sandbox = make(env={"COLOUR": "green"})
    sandbox.run("import os; kept = 7; os.environ['SIZE'] = 'large'; open('leaf', 'w').write('oval')")
    assert sandbox.install("birch") == ["beech==1.0", "birch==2.0"]
    seen = (
        "import beech, birch; [kept, beech.x, birch.x, os.environ['SIZE'], os.environ['COLOUR'], open('leaf').read()]"
    )
    assert sandbox.run(seen).value == [7, 1, 2, "large", "green", "oval"]
    assert sandbox.run("1").state == "kept"


def test_packages_survive_a_reset_and_a_crash(make: Make, shop: Shop) -> None:
    shop.sell(wheel("cedar", "1.0", {"cedar.py": "x = 3"}))
    sandbox = make()
    sandbox.install("cedar")
    sandbox.reset()
    assert sandbox.run("import cedar; cedar.x").value == 3
    assert sandbox.run("import os; os._exit(3)").status == "crashed"
    assert sandbox.run("import cedar; cedar.x").value == 3


@mostly_native
def test_a_second_installation_leaves_the_first_in_place(make: Make, shop: Shop) -> None:
    shop.sell(wheel("dogwood", "1.0", {"dogwood.py": "x = 4"}), wheel("ebony", "1.0", {"ebony.py": "x = 5"}))
    sandbox = make(packages=["dogwood"])
    sandbox.run("import dogwood")
    assert sandbox.install("ebony") == ["ebony==1.0"]
    assert sandbox.run("import ebony; dogwood.x + ebony.x").value == 9


@mostly_native
def test_a_restored_sandbox_has_what_was_added_and_tells_what_it_cannot_have(make: Make, shop: Shop) -> None:
    shop.sell(wheel("walnut", "1.0", {"walnut.py": "class Nut:\n    size = 3"}), wheel("yew", "1.0", {"yew.py": ""}))
    sandbox = make(packages=["walnut"])
    sandbox.install("yew")
    sandbox.run("import walnut, yew; nut = walnut.Nut()").raise_for_status()
    saved = sandbox.checkpoint()
    with Sandbox.restore(saved) as other:
        assert (other.restored.skipped, other.restored.packages_skipped) == ({}, {})
        assert other.run("import yew; [nut.size, walnut.__name__]").value == [3, "walnut"]
    with Sandbox.restore(saved, policy=Policy(packages=["walnut"])) as other:
        assert [*other.restored.packages_skipped] == [*other.restored.skipped] == ["yew"]
        assert "allows walnut" in other.restored.packages_skipped["yew"]
        ran = other.run("nut.size")
        assert (ran.value, ", without yew" in ran.state_reason) == (3, True)
    with Sandbox.restore(saved, packages=[], policy=Policy(packages="none")) as other:
        assert (other.restored.packages_skipped, {*other.restored.skipped}) == ({}, {"walnut", "yew", "nut"})


def test_a_run_brings_its_packages_and_says_which(live: Sandbox, shop: Shop) -> None:
    shop.sell(wheel("fir", "1.0", {"fir.py": "x = 6"}), wheel("fir", "2.0", {"fir.py": "x = 7"}))
    ran = live.run("import fir; fir.x", packages=["fir>=1,<2"])
    assert (ran.value, ran.packages_installed, ran.error) == (6, ["fir==1.0"], None)


@mostly_native
def test_a_run_whose_packages_cannot_be_had_does_not_run(live: Sandbox, shop: Shop) -> None:
    live.run("x = 1")
    ran = live.run("x = 2", packages=["unheard-of"])
    assert (ran.status, ran.error.code, ran.exit_code) == ("error", "PACKAGE_INSTALL_FAILED", 1)
    assert ran.error.value == "unheard-of could not be installed: there is no package 'unheard-of' on the package index"
    assert live.run("x").value == 1


@mostly_native
def test_install_and_a_new_sandbox_raise_instead(make: Make, live: Sandbox, shop: Shop) -> None:
    with pytest.raises(PackageError, match="there is no package 'unheard-of' on the package index"):
        live.install("unheard-of")
    with pytest.raises(PackageError, match="there is no package 'unheard-of' on the package index"):
        make(packages=["unheard-of"])


def test_what_code_imports_is_installed_before_it_runs(live: Sandbox, shop: Shop) -> None:
    shop.sell(
        wheel("ginkgo", "1.0", {"ginkgo/__init__.py": "", "ginkgo/leaf.py": "x = 8"}),
        wheel("python-slugify", "1.0", {"slugify.py": "x = 9"}),
    )
    ran = live.run("def f():\n    from slugify import x\n    return x\nfrom ginkgo.leaf import x\nx + f()")
    assert (ran.value, ran.packages_installed) == (17, ["ginkgo==1.0", "python-slugify==1.0"])
    again = live.run("import ginkgo, slugify")
    assert (again.error, again.packages_installed) == (None, [])


def test_an_import_that_cannot_be_had_runs_and_says_why(live: Sandbox, shop: Shop) -> None:
    ran = live.run("print('ran')\nimport unheard_of")
    assert (ran.stdout, ran.error.code, ran.packages_installed) == ("ran\n", "MODULE_NOT_FOUND", [])
    assert "there is no package 'unheard-of' on the package index" in ran.error.hint


@mostly_native
def test_one_import_that_cannot_be_had_does_not_keep_the_others_back(live: Sandbox, shop: Shop) -> None:
    shop.sell(wheel("hazel", "1.0", {"hazel.py": "x = 10"}))
    ran = live.run("import hazel\ntry:\n    import unheard_of\nexcept ImportError:\n    pass\nhazel.x")
    assert (ran.value, ran.packages_installed) == (10, ["hazel==1.0"])


@mostly_native
def test_while_the_index_is_silent_imports_find_what_this_machine_has(
    make: Make, engine: str, shop: Shop, apart: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, content = wheel("rowan", "1.0", {"rowan.py": "x = 15"})
    (tmp_path / name).write_bytes(content)
    installer: Any = probe.installer(apart, engine)
    monkeypatch.setattr(installer, "settings", replace(installer.settings, wheelhouse=tmp_path))
    shop.sell(wheel("quince", "1.0", {"quince.py": "x = 14"}))
    make().run("import quince").raise_for_status()
    shop.close()
    sandbox = make()
    assert "cannot be reached" in sandbox.run("import unheard_of").error.hint
    assert sandbox.run("import quince; quince.x").value == 14
    assert make().run("import rowan; rowan.x").value == 15
    assert "could not be reached a moment ago" in sandbox.run("import never_heard_of").error.hint


def test_a_module_of_the_workspace_is_not_looked_for_on_the_index(live: Sandbox, shop: Shop) -> None:
    live.files.write("own.py", "x = 11")
    live.files.write("lib/deep.py", "x = 12")
    assert live.run("import own; own.x").value == 11
    assert live.run("import deep; deep.x", cwd="lib").value == 12
    assert live.run("import deep as d; d.x", env={"PYTHONPATH": "/workspace/lib"}).value == 12
    assert live.run("import fresh; fresh.x", files={"fresh.py": "x = 13"}).value == 13
    assert shop.asked == []


@mostly_native
@pytest.mark.parametrize("name", ["pandsa", "reqeusts", "numpyy"])
def test_what_looks_like_a_typo_is_not_installed(live: Sandbox, shop: Shop, name: str) -> None:
    shop.sell(wheel(name, "1.0", {f"{name}.py": "raise SystemExit('squatted')"}))
    ran = live.run(f"import {name}")
    assert (ran.error.code, ran.packages_installed) == ("MODULE_NOT_FOUND", [])
    assert "did you mean" in ran.error.hint
    assert shop.asked == []


@mostly_native
def test_a_package_that_does_not_bring_the_module_is_not_installed(live: Sandbox, shop: Shop) -> None:
    shop.sell(wheel("ironwood", "1.0", {"something_else.py": ""}))
    ran = live.run("import ironwood")
    assert (ran.error.code, ran.packages_installed) == ("MODULE_NOT_FOUND", [])
    assert "brings no module 'ironwood'" in ran.error.hint


@mostly_native
def test_an_allow_list_holds_for_every_way_in(make: Make, shop: Shop) -> None:
    shop.sell(wheel("jasmine", "1.0", {"jasmine.py": ""}), wheel("jasmine", "2.0", {"jasmine.py": ""}))
    shop.sell(wheel("kapok", "1.0", {"kapok.py": ""}))
    policy = Policy(packages=["jasmine<2"])
    sandbox = make(policy=policy)
    assert sandbox.run("import jasmine").packages_installed == ["jasmine==1.0"]
    assert sandbox.run("import kapok").error.code == "MODULE_NOT_FOUND"
    assert "does not allow it" in sandbox.run("import kapok").error.hint
    assert sandbox.run("1", packages=["kapok"]).error.code == "PACKAGE_INSTALL_FAILED"
    for act in (lambda: sandbox.install("kapok"), lambda: make(packages=["kapok"], policy=policy)):
        with pytest.raises(
            PackageError, match=r"kapok may not be installed here; Policy\(packages=\[...\]\) allows jasmine"
        ):
            act()
    assert not [path for path in shop.asked if "files/kapok" in path]


@mostly_native
def test_none_means_none(make: Make, shop: Shop) -> None:
    shop.sell(wheel("larch", "1.0", {"larch.py": ""}))
    sandbox = make(policy=Policy(packages="none"))
    assert sandbox.run("import larch").error.code == "MODULE_NOT_FOUND"
    assert sandbox.run("1", packages=["larch"]).error.code == "PACKAGE_INSTALL_FAILED"
    with pytest.raises(PackageError, match="nothing is installed into it"):
        sandbox.install("larch")
    assert not [path for path in shop.asked if "files/" in path]


@mostly_native
def test_a_distribution_that_is_imported_is_not_replaced_and_both_versions_are_named(make: Make, shop: Shop) -> None:
    shop.sell(wheel("maple", "1.0", {"maple.py": "x = 1"}), wheel("maple", "2.0", {"maple.py": "x = 2"}))
    sandbox = make(packages=["maple==1.0"])
    sandbox.run("import maple")
    with pytest.raises(PackageError, match=r"maple 1\.0 by 2\.0, and it is imported already"):
        sandbox.install("maple==2.0")
    assert sandbox.run("maple.x").value == 1
    sandbox.reset()
    assert sandbox.install("maple==2.0") == ["maple==2.0"]
    assert sandbox.run("import maple; maple.x").value == 2


def test_a_distribution_that_nobody_imported_is_replaced_under_way(live: Sandbox, shop: Shop) -> None:
    shop.sell(wheel("tabulate", "0.0.7", {"tabulate.py": "__version__ = '0.0.7'"}))
    live.run("x = 1")
    assert live.install("tabulate==0.0.7") == ["tabulate==0.0.7"]
    assert live.run("import tabulate; [tabulate.__version__, x]").value == ["0.0.7", 1]


@mostly_native
def test_another_version_of_something_imported_ahead_is_there_from_the_first_run_on(make: Make, shop: Shop) -> None:
    shop.sell(wheel("pandas", "0.0.8", {"pandas.py": "__version__ = '0.0.8'"}))
    ran = make().run("import pandas; pandas.__version__", packages=["pandas==0.0.8"])
    assert (ran.value, ran.packages_installed, ran.state) == ("0.0.8", ["pandas==0.0.8"], "kept")


@mostly_native
def test_nothing_inside_can_change_a_package(make: Make, shop: Shop) -> None:
    shop.sell(wheel("oak", "1.0", {"oak.py": "x = 1"}))
    first = make(packages=["oak"])
    for act in ("open(oak.__file__, 'w')", "os.unlink(oak.__file__)", "os.rename(oak.__file__, '/workspace/oak.py')",
                "open('/packages/site/more.py', 'w')", "os.mkdir('/packages/more')"):  # fmt: skip
        assert first.run(f"import oak, os\n{act}").error is not None, act
    assert make(packages=["oak"]).run("import oak; oak.x").value == 1


@mostly_native
@pytest.mark.parametrize("given", ["oak", ["--pre"], ["git+https://example.org/x.git"], [1]], ids=str)
def test_what_is_no_package_is_refused_before_anything_happens(
    make: Make, live: Sandbox, shop: Shop, given: object
) -> None:
    for act in (
        lambda: live.run("1", packages=given),
        lambda: make(packages=given),
        lambda: make(policy=Policy(packages=given)),
    ):
        with pytest.raises(InvalidRequest):
            act()
    assert shop.asked == []


def test_installing_nothing_is_a_mistake(live: Sandbox) -> None:
    with pytest.raises(InvalidRequest, match="name at least one package"):
        live.install()


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import a, b.c as d ; import e", ["a", "b", "e"]),
        ("from f.g import h, i", ["f"]),
        ("import j, \\\n    k  # and more", ["j", "k"]),
        ("x = [1, y, z]; raise E from e", []),
    ],
)
def test_a_glance_at_code_finds_what_it_imports(code: str, names: list[str]) -> None:
    assert names_at_a_glance(code) == names
