"""Addresses of packages: which are taken, and only below what the operator has named."""

from __future__ import annotations

import pytest

from belljar.errors import InvalidRequest
from belljar.packages.addresses import Address, check_source, parse_address
from belljar.packages.requirements import check
from belljar.settings import Settings

SOURCES = ("https://forge.example/", "http://files.example:8080/team/")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("git+https://forge.example/user/repo.git", Address("https://forge.example/user/repo.git", True)),
        ("git+HTTPS://Forge.Example/user/Repo.git", Address("https://forge.example/user/Repo.git", True)),
        (
            "A_b @ git+https://forge.example/user/repo@v1.2/x",
            Address("https://forge.example/user/repo", True, "a-b", "v1.2/x"),
        ),
        (
            "a @ https://forge.example/a-1.0-py3-none-any.whl",
            Address("https://forge.example/a-1.0-py3-none-any.whl", False, "a"),
        ),
        (
            f"http://files.example:8080/team/a-1.0.tar.gz#sha256={'0' * 64}",
            Address("http://files.example:8080/team/a-1.0.tar.gz", False, sha256="0" * 64),
        ),
    ],
)
def test_an_address_below_a_source_is_taken_and_spelled_in_one_way(written: str, meant: Address) -> None:
    assert parse_address(written, SOURCES) == meant
    assert parse_address(str(meant), SOURCES) == meant
    assert check([written], sources=SOURCES) == (str(meant),)


@pytest.mark.parametrize(
    "written",
    [
        "git+https://other.example/x.git", "git+https://forge.example.evil.example/x.git",
        "git+https://forge.example@evil.example/x.git", "git+https://user:word@forge.example/x.git",
        "git+http://forge.example/x.git", "git+https://forge.example:444/x.git", "git+ssh://git@forge.example/x.git",
        "git+file:///etc/x.git", "git+https://forge.example/x.git@--upload-pack=touch", "git+https://forge.example/../x",
        "git+https://forge.example//x.git", "git+https://forge.example/%2e%2e/x.git", "git+https://forge.example/x y",
        "git+https://forge.example/x.git#subdirectory=a", "git+https://forge.example/x.git@a..b",
        f"git+https://forge.example/x.git#sha256={'0' * 64}", "https://forge.example/x.exe", "https://forge.example/",
        "http://files.example:8080/teams/a.whl", "http://files.example:8080/team/../a.whl", "hg+https://forge.example/x",
        "https://forge.example/a.whl?x=1", "a @ file:///etc/a.whl", "https://forge.example/a.whl\n--pre",
        "git+https://forge.example/" + "x" * 600, "git+https://forge.example/x;id", "git+https://forge.example/$(id)",
    ],
)  # fmt: skip
def test_anything_else_is_refused(written: str) -> None:
    with pytest.raises(InvalidRequest):
        check([written], sources=SOURCES)


def test_without_a_source_the_sentence_says_who_could_allow_it() -> None:
    with pytest.raises(InvalidRequest, match=r"not allowed here; name a package of the index, or have the operator"):
        check(["git+https://forge.example/x.git"])


@pytest.mark.parametrize("url", ["https://forge.example/a/%2E%2e/b", "https://evil.example/", "https://forge.example"])
def test_a_redirect_to_elsewhere_is_no_source(url: str) -> None:
    with pytest.raises(InvalidRequest):
        check_source(url, SOURCES)


def test_the_setting_takes_several_and_ends_each_with_a_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLJAR_PACKAGE_SOURCES", "https://Forge.Example/User, http://files.example:8080/")
    assert Settings.load().package_sources == ("https://forge.example/User/", "http://files.example:8080/")
    for wrong in ("forge.example", "ssh://forge.example/", "https://me:secret@forge.example/"):
        monkeypatch.setenv("BELLJAR_PACKAGE_SOURCES", wrong)
        with pytest.raises(InvalidRequest, match="BELLJAR_PACKAGE_SOURCES"):
            Settings.load()
