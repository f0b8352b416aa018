"""The docs keep up with the code: every error, code, command and setting has a heading, links lead somewhere, examples run."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.pages import DOCS, PAGES, ROOT, examples
from tests.shop import Shop, wheel

import belljar
from belljar import errors
from belljar.compose import LocalHost
from belljar.settings import PREFIX, Settings
from belljar.surfaces.cli import parser

CODES = {
    *("PYTHON_SYNTAX_ERROR", "MODULE_NOT_FOUND", "IMPORT_ERROR", "RUNTIME_ERROR", "MEMORY_ERROR", "EXECUTION_TIMEOUT"),
    *("PACKAGE_INSTALL_FAILED", "CANCELLED", "CRASHED", "OUTPUT_LIMIT", "DISK_LIMIT", "PROCESS_LIMIT"),
}


TOPS = ("src/", "tests/", "benchmarks/", "docs/")
TRIED_APART = ("packages.md", "state.md")  # which need an index, and a folder for the key
ALONE = [
    (page.name, number)
    for page in sorted(DOCS.glob("*.md"))
    for number in range(len(examples(page)))
    if page.name not in TRIED_APART
]


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", without_code(page), flags=re.MULTILINE)


def sections(page: Path) -> dict[str, str]:
    parts = re.split(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchors(page: Path) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def run_on_the_host(example: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def error_classes() -> set[str]:
    """Every class of `belljar.errors`, and every other error that a caller can import."""
    public = {name: getattr(belljar, name) for name in belljar.__all__}
    found = {name for name, value in public.items() if inspect.isclass(value) and issubclass(value, Exception)}
    return found | {
        name for name, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__
    }


def commands(of: argparse.ArgumentParser) -> set[str]:
    found = set()
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found |= {child.prog, *commands(child)}
    return found


def missing_files(text: str) -> list[str]:
    """What a text names in backticks as a file or folder, and is none.

    A name may leave the beginning of the path out. After a folder and a colon, single words name modules in it.
    """
    missing = []
    for line in text.splitlines():
        folder = ""
        for name, colon in re.findall(r"`([^`\s]+)`(:?)", line):
            if name.endswith("/") or re.search(r"^[^/].*\.(py|ts|json|md|toml)$", name):
                folder = name if colon else folder
                missing += [] if is_there(name) else [name]
            elif folder and re.fullmatch(r"[a-z_]+", name):
                missing += [] if is_there(f"{folder}{name}.py") or is_there(f"{folder}{name}.ts") else [folder + name]
    return missing


def is_there(name: str) -> bool:
    """Whether a path of the repository is this, or ends with it."""
    if (ROOT / name).exists():
        return True
    return not name.startswith(TOPS) and any(f"/{path}".endswith(f"/{name}") for path in repository())


@cache
def repository() -> list[str]:
    """The files and folders of the sources and tests, folders with a slash at the end."""
    paths = (path for top in TOPS for path in (ROOT / top).rglob("*"))
    return [path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else "") for path in paths]


def settings() -> set[str]:
    """The variable of every field of Settings, and any other that the host's code spells out."""
    sources = [path.read_text("utf-8") for path in (ROOT / "src" / "belljar").rglob("*.py")]
    spelled = {name for source in sources for name in re.findall(r"\bBELLJAR_[A-Z_]*[A-Z]\b", source)}
    return spelled | {PREFIX + field.name.upper() for field in dataclasses.fields(Settings)}


def test_every_error_class_and_every_error_code_has_a_heading() -> None:
    assert set(headings(DOCS / "errors.md")) == {"Errors", "Exceptions", "Error codes"} | error_classes() | CODES


def test_every_error_says_what_happened_why_and_what_to_do() -> None:
    for name, text in sections(DOCS / "errors.md").items():
        if name in error_classes() | CODES:
            assert [word for word in ("What happened", "Why", "What to do") if f"**{word}:**" not in text] == [], name


def test_every_error_class_is_drawn_in_the_tree() -> None:
    assert errors.__doc__ is not None
    assert set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+\b(?=  |$)", errors.__doc__, flags=re.MULTILINE)) == error_classes()


def test_every_error_code_in_the_source_is_documented() -> None:
    literal = re.compile(r"""["']([A-Z]+(?:_[A-Z]+)*_(?:ERROR|LIMIT|FAILED|TIMEOUT|NOT_FOUND))["']""")
    used = {code for path in (ROOT / "src").rglob("*.py") for code in literal.findall(path.read_text("utf-8"))}
    assert used <= CODES


def test_every_command_has_a_heading_and_every_heading_a_command() -> None:
    documented = {heading for heading in headings(DOCS / "cli.md") if heading.startswith("belljar ")}
    assert documented == commands(parser.build())


def test_every_option_of_a_command_is_in_its_section() -> None:
    text = (DOCS / "cli.md").read_text("utf-8")
    for action in parser.build()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                options = {name for option in child._actions for name in option.option_strings} - {"-h", "--help"}
                assert [name for name in options if name not in text] == [], child.prog


def test_every_setting_has_a_heading_and_every_heading_a_setting() -> None:
    assert set(headings(DOCS / "settings.md")) - {"Settings"} == settings()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    assert missing_files(page.read_text("utf-8")) == []


def test_a_file_that_is_named_in_short_and_not_there_is_found() -> None:
    assert missing_files("`src/belljar/host/life.py` and `engines/gone.py`, `nothing.ts`, `/proc/self`, `native/`") == [
        "src/belljar/host/life.py", "engines/gone.py", "nothing.ts",
    ]  # fmt: skip
    assert missing_files("| a | `src/belljar/host/`: `pool` (one), `life`, `engines/base.py`; `src/belljar/egress/`: `x` |") == [
        "src/belljar/host/life", "src/belljar/egress/x",
    ]  # fmt: skip


def test_readme_names_the_two_commands_first() -> None:
    first_block = re.search(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert first_block is not None
    assert re.findall(r"^make \w+", first_block[1], re.MULTILINE) == ["make run", "make test"]


@pytest.mark.engine
def test_readme_example_does_what_it_says() -> None:
    (example,) = examples(ROOT / "README.md")
    output = run_on_the_host(example).splitlines()
    assert output[0].split() == ["x"]
    assert output[1:3] == ["count  3.0", "mean   2.0"]
    assert output[-3:] == ["error RUNTIME_ERROR before", "", "under glass"]


@pytest.mark.parametrize(("page", "number"), ALONE)
@pytest.mark.usefixtures("native")
def test_every_example_runs(page: str, number: int) -> None:
    run_on_the_host(examples(DOCS / page)[number])


def test_the_example_about_packages_runs(native: None, shop: Shop, apart: LocalHost, monkeypatch: pytest.MonkeyPatch):
    (example,) = examples(DOCS / "packages.md")
    shop.sell(wheel("humanize", "4.9.0", {"humanize.py": ""}))
    monkeypatch.setenv("BELLJAR_CACHE_DIR", str(apart.settings.cache_dir))
    run_on_the_host(example)
    assert any("humanize" in path for path in shop.asked)
