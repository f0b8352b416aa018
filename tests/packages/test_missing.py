"""A failed import is explained: a typo, no such package, no build for this engine, or nobody to ask."""

from __future__ import annotations

import asyncio
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.packages.conftest import Serve, UseIndex, page

from belljar.packages import lookup, pyodide
from belljar.packages.bounded import Budget
from belljar.packages.cpython_installer import CPythonInstaller
from belljar.packages.environment import Environment
from belljar.packages.lookup import Answer, understood
from belljar.packages.missing import explain
from belljar.packages.progress import Progress
from belljar.packages.pyodide_installer import PyodideInstaller
from belljar.packages.target import Target
from belljar.policy import Policy
from belljar.settings import Settings

HAS = {"pandas": "pandas", "numpy": "numpy", "PIL": "pillow", "bs4": "beautifulsoup4", "sklearn": "scikit-learn"}
INDEX = {
    "simple/yesterday/": page("yesterday-1.0-py3-none-any.whl", "yesterday-1.0.tar.gz"),
    "simple/compiled/": page("compiled-1.0-cp314-cp314-manylinux_2_28_x86_64.whl", "compiled-1.0.tar.gz"),
    "simple/sourceful/": page("sourceful-1.0.tar.gz"),
    "simple/forwasm/": page("forwasm-1.0-cp314-cp314-pyemscripten_2026_0_wasm32.whl"),
    "simple/forthefuture/": page("forthefuture-1.0-cp399-cp399-pyemscripten_2026_0_wasm32.whl"),
}


NATIVE = CPythonInstaller("native", Settings.load()).target


@cache
def wasm() -> Target:
    return PyodideInstaller("wasm", Settings.load(), NoRuntimes(), NATIVE).target


class NoRuntimes:
    """No sandbox is started here."""

    is_assembled = False

    def digest(self, progress: Progress) -> str:
        raise AssertionError("a runtime was asked for")

    def pack(self, layer: Path, budget: Budget) -> None:
        raise AssertionError("a layer was packed")


@pytest.fixture
def say(settings: Settings):
    return lambda module, engine="wasm": explain(module, target=wasm() if engine == "wasm" else NATIVE, modules=HAS)


@pytest.fixture
def nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object) -> Answer:
        raise AssertionError("the index was asked")

    monkeypatch.setattr(lookup, "ask", ask)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("pnadas", "pandas"), ("numpi", "numpy"), ("nunpy", "numpy"), ("sklaern", "sklearn"), ("colections", "collections"), ("pil", "PIL"),
     ("requets", "requests"), ("tensorflw", "tensorflow"), ("Json", "json")],
)  # fmt: skip
def test_a_typo_gets_a_suggestion_and_no_question_to_the_index(say, nobody_asks: None, typed: str, meant: str) -> None:
    assert say(typed) == f"No module is named {typed!r}; did you mean {meant!r}?"


@pytest.mark.parametrize("name", ["_xxsubinterpreterz", "__", "trailing_"])
def test_what_no_package_can_be_called_is_not_asked_for(say, nobody_asks: None, name: str) -> None:
    assert say(name) == "That is not a name that a package could have."


def test_the_name_of_a_distribution_leads_to_its_import_name(say, nobody_asks: None) -> None:
    assert say("beautifulsoup4") == "'beautifulsoup4' is installed, but is imported as 'bs4'."
    assert say("scikit_learn") == "'scikit_learn' is installed, but is imported as 'sklearn'."


def test_a_submodule_is_not_a_package(say, nobody_asks: None) -> None:
    assert say("pandas.nope") == "'pandas' has no submodule 'nope'."
    assert say("sklearn.deep.er") == "'sklearn' (of scikit-learn) has no submodule 'deep.er'."
    assert say("os.nope") == "'os' has no submodule 'nope'."


def test_a_module_of_the_standard_library_that_is_left_out_needs_another_engine(say, nobody_asks: None) -> None:
    assert say("fcntl").endswith("but the wasm engine has none. Use engine='native' for it.")


def test_a_sandbox_without_packages_is_told_that_there_are_some(settings: Settings, nobody_asks: None) -> None:
    for target in (wasm(), NATIVE):
        assert explain("PIL.Image", target=target, modules={}) == (
            "The package 'pillow' is preinstalled, but this sandbox was made without (packages='none')."
        )


def test_a_sandbox_into_which_nothing_may_be_installed_asks_nobody(settings: Settings, nobody_asks: None) -> None:
    assert explain("yesterday", policy=Policy(packages="none"), target=NATIVE, modules=HAS) == (
        "No module is named 'yesterday', and nothing is installed here (packages='none')."
    )
    assert explain("yesterday", policy=Policy(packages=["rich"]), target=NATIVE, modules=HAS) == (
        "If there is a package 'yesterday', this sandbox's Policy(packages=[...]) does not allow it."
    )


def test_what_is_known_to_have_no_build_is_said_without_asking(say, nobody_asks: None) -> None:
    assert say("yaml") == (
        "The package 'pyyaml' has no build for the wasm engine: it has compiled parts. Use engine='native', which has it."
    )
    assert say("psutil") == (
        "The package 'psutil' has no build for the wasm engine: it asks the operating system, and there is none inside."
        " Use engine='native', which can install it: packages=['psutil']."
    )


@pytest.mark.parametrize(
    "module",
    ["", "--index-url=http://x", "-r/etc/passwd", "a b", "a;b", "a\nb", ".a", "a..b", "a.", "x" * 101, "é", "git+https://x",
     "a@b", "1a"],
)  # fmt: skip
def test_what_is_no_name_goes_nowhere(say, nobody_asks: None, module: str) -> None:
    assert say(module) == "That is not a name that a package could have."


@pytest.mark.parametrize("name", ["--pre", "-e", "a b", "a/b", "a\n", "", "A", "a" * 101])
def test_a_name_that_could_be_an_option_never_reaches_pip(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(lookup, "_ask", lambda *_: pytest.fail("pip was called"))
    assert lookup.ask(name, wasm()).kind == "missing"


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("yesterday", "The package 'yesterday' exists and can be installed: packages=['yesterday']."),
        ("forwasm", "The package 'forwasm' exists and can be installed: packages=['forwasm']."),
        ("unheard_of", "There is no package 'unheard-of' on the package index."),
        *(
            (
                name,
                f"The package {name!r} has no build for the wasm engine. Use engine='native', which can install it: packages=[{name!r}].",
            )
            for name in ("compiled", "sourceful", "forthefuture")
        ),
    ],
)
def test_the_index_tells_no_such_package_from_no_build(
    say, serve: Serve, use_index: UseIndex, module: str, sentence: str
) -> None:
    use_index(f"{serve(dict(INDEX)).address}/simple")
    assert say(f"{module}.sub") == sentence


def test_an_index_that_cannot_be_reached_is_not_taken_for_no_such_package(say, use_index: UseIndex) -> None:
    assert say("unheard_of").startswith(
        "Whether there is a package 'unheard-of' is not known: the package index cannot be asked ([Errno"
    )


def test_pip_without_an_index_says_so(say, use_index: UseIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert say("unheard_of").endswith("the package index cannot be asked (pip is set up for no index).")


def test_an_index_that_never_answers_is_left_after_a_while_and_then_for_a_minute(
    say, use_index: UseIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "LONGEST_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        use_index(f"http://127.0.0.1:{server.getsockname()[1]}/simple")
        assert "cannot be asked (no answer within 2 s)" in say("unheard_of")
        monkeypatch.setattr(lookup, "_ask", lambda *_: pytest.fail("it was asked again"))
        assert "cannot be asked (no answer within 2 s)" in say("never_mentioned")


def test_an_answer_is_remembered_and_threads_share_one_question(say, serve: Serve, use_index: UseIndex) -> None:
    served = serve(dict(INDEX))
    use_index(f"{served.address}/simple")
    with ThreadPoolExecutor(4) as threads:
        said = set(threads.map(say, ["yesterday"] * 4))
    assert len(said) == 1
    assert served.asked == ["/simple/yesterday/"]


def test_a_package_on_another_engine_is_not_said_to_lack_a_wasm_build(say, serve: Serve, use_index: UseIndex) -> None:
    use_index(f"{serve(dict(INDEX)).address}/simple")
    assert (
        say("sourceful", "native")
        == "The package 'sourceful' has no wheel for this machine's Python, and nothing is built."
    )
    assert say("yesterday", "native").startswith("The package 'yesterday' exists")


def test_without_another_engine_none_is_named(nobody_asks: None) -> None:
    alone = replace(wasm(), fuller=None)
    assert explain("yaml", target=alone, modules=HAS) == (
        "The package 'pyyaml' has no build for the wasm engine: it has compiled parts."
    )
    assert explain("fcntl", target=alone, modules=HAS).endswith("but the wasm engine has none.")


def test_without_a_prepared_set_there_is_still_an_answer(nobody_asks: None) -> None:
    assert "did you mean 'collections'" in explain("colections", target=wasm(), modules={})


def test_the_installer_knows_the_prepared_set(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(pyodide, "known_modules", lambda folder: asked.append(folder) or {"zebra": "zebra"})
    installer = PyodideInstaller("wasm", settings, NoRuntimes())
    environment = Environment(Path(sys.executable), settings.cache_dir)
    said = asyncio.run(installer.explain_import("zebrra", environment, Policy()))
    installer.close()
    assert said.endswith("did you mean 'zebra'?")
    assert asked == [settings.cache_dir]


def test_a_refusal_of_the_index_is_not_taken_for_no_such_package() -> None:
    said = (
        "Could not fetch URL http://x/simple/a/: 403 Client Error: Forbidden for url: http://x/simple/a/ - skipping\n"
    )
    assert understood(said + "ERROR: No matching distribution found for a") == Answer(
        "unreachable", "403 Client Error: Forbidden"
    )


def test_output_that_says_nothing_known_is_passed_on() -> None:
    assert understood('ERROR: unknown command "index"') == Answer("unreachable", 'pip said: unknown command "index"')
