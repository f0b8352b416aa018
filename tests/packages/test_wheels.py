"""What a wheel may write, and what makes it refused."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from belljar.errors import PackageError
from belljar.packages import wheels
from belljar.packages.wheels import check_foreign, is_needed, module_of, unpack


def pack(path: Path, members: list[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_wheel_is_unpacked_without_tests_headers_and_stubs(tmp_path: Path) -> None:
    names = ["a/__init__.py", "a/b.so", "a/b.pyi", "a/b.pxd", "a/include/b.h", "a/tests/test_b.py", "a/tests/__init__.py",
             "a/data.csv", "a.libs/c.so", "a-1.dist-info/METADATA", "one.py"]  # fmt: skip
    unpacked = unpack(pack(tmp_path / "a-1-py3-none-any.whl", [(name, b"12345") for name in names]), tmp_path / "site")
    assert files_of(tmp_path / "site") == {
        "a/__init__.py", "a/b.so", "a/tests/__init__.py", "a/data.csv", "a.libs/c.so", "a-1.dist-info/METADATA", "one.py",
    }  # fmt: skip
    assert unpacked == wheels.Unpacked(("a", "one"), 35)


def test_data_of_the_whole_system_is_left_out_but_libraries_are_not(tmp_path: Path) -> None:
    names = ["a-1.data/scripts/a", "a-1.data/data/share/man/a.1", "a-1.data/purelib/a/__init__.py"]
    unpack(pack(tmp_path / "a-1-py3-none-any.whl", [(name, b"") for name in names]), tmp_path / "site")
    assert files_of(tmp_path / "site") == {"a/__init__.py"}


@pytest.mark.parametrize(
    "name",
    ["/etc/x.py", "../x.py", "a/../../x.py", "a/./x.py", "a//x.py", "C:/x.py", "a\\..\\x.py", "a/\nx.py",
     "a-1.data/purelib/../../x.py"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name  # ZipInfo itself would mend some of these
    wheel = pack(tmp_path / "bad-1-py3-none-any.whl", [("good.py", b""), (info, b"")])
    with pytest.raises(PackageError, match=r"bad-1-py3-none-any\.whl is refused: it has a file named"):
        unpack(wheel, tmp_path / "deep" / "site")
    assert files_of(tmp_path) == {wheel.name}


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("a/link")
    info.external_attr = (kind | 0o777) << 16
    with pytest.raises(PackageError, match="neither file nor folder"):
        unpack(pack(tmp_path / "bad-1-py3-none-any.whl", [(info, b"/etc/passwd")]), tmp_path / "site")


def test_a_bomb_is_refused_by_what_it_would_become(tmp_path: Path) -> None:
    wheel = pack(tmp_path / "bomb-1-py3-none-any.whl", [("a/zeros", bytes(20_000_000))])
    with pytest.raises(PackageError, match="too much"):
        unpack(wheel, tmp_path / "site")
    assert files_of(tmp_path) == {wheel.name}


def test_a_bomb_that_lies_about_its_size_writes_no_more_than_it_said(tmp_path: Path) -> None:
    wheel = pack(tmp_path / "liar-1-py3-none-any.whl", [("a/zeros", bytes(5_000_000))])
    wheel.write_bytes(wheel.read_bytes().replace((5_000_000).to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    with pytest.raises(PackageError, match="liar-1"):
        unpack(wheel, tmp_path / "site")
    assert sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file()) <= 1000


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "MOST_FILES", 3)
    with pytest.raises(PackageError, match="4 files"):
        unpack(pack(tmp_path / "a-1-py3-none-any.whl", [(f"a/{n}", b"") for n in range(4)]), tmp_path / "site")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["a/x.py", "a/X.py"])
def test_a_name_that_comes_twice_is_refused(tmp_path: Path, second: str) -> None:
    with pytest.raises(PackageError, match="twice"):
        unpack(pack(tmp_path / "a-1-py3-none-any.whl", [("a/x.py", b"1"), (second, b"2")]), tmp_path / "site")


def test_one_wheel_cannot_replace_the_file_of_another(tmp_path: Path) -> None:
    unpack(pack(tmp_path / "a-1-py3-none-any.whl", [("shared.py", b"good")]), tmp_path / "site")
    with pytest.raises(PackageError, match="b-1"):
        unpack(pack(tmp_path / "b-1-py3-none-any.whl", [("shared.py", b"bad")]), tmp_path / "site")
    assert (tmp_path / "site" / "shared.py").read_bytes() == b"good"


def test_a_broken_archive_is_a_package_error(tmp_path: Path) -> None:
    wheel = pack(tmp_path / "a-1-py3-none-any.whl", [("a.py", b"some text that is long enough" * 50)])
    content = bytearray(wheel.read_bytes())
    content[40:60] = bytes(20)
    for broken in (bytes(content), content[: len(content) // 2], b"", b"not a zip"):
        wheel.write_bytes(broken)
        with pytest.raises(PackageError, match=r"a-1-py3-none-any\.whl"):
            unpack(wheel, tmp_path / "site")


def test_files_that_packages_import_of_their_own_tests_are_kept() -> None:
    assert [name for name in ("a/tests/__init__.py", "a/test/b/_natype.py", "a/tests.py") if not is_needed(name)] == []
    assert [name for name in ("a/tests/conftest.py", "a/tests/data/x.csv", "a/x.h") if is_needed(name)] == []


def test_import_names_are_read_from_the_files() -> None:
    places = [
        "a/b.py",
        "one.py",
        "two.cpython-314-wasm32-emscripten.so",
        "a.libs/x.so",
        "a-1.dist-info/RECORD",
        "README.md",
    ]
    assert [module_of(place) for place in places] == ["a", "one", "two", None, None, None]


@pytest.mark.parametrize(
    "line",
    ["Requires-Dist: b @ http://127.0.0.1/b.whl", "requires-dist:b@file:///b.whl", "Requires-Dist : b[x]\n @ http://h/b",
     "Requires-Dist: b\v@ http://h/b", "Name: a\rRequires-Dist: b @ http://h/b", "\nRequires-Dist: b @ git+http://h/b"],
)  # fmt: skip
def test_a_wheel_from_an_address_that_needs_an_address_is_refused(tmp_path: Path, line: str) -> None:
    for place in ("a-1.dist-info/METADATA", "other.dist-info/Metadata"):
        wheel = pack(
            tmp_path / "a-1-py3-none-any.whl", [("a.py", b""), (place, f"Metadata-Version: 2.1\n{line}\n".encode())]
        )
        with pytest.raises(PackageError, match="an address, and only names are followed"):
            check_foreign(wheel)


def test_a_wheel_from_an_address_may_need_names_and_not_be_a_bomb(tmp_path: Path) -> None:
    needed = b"Requires-Dist: b[x]>=1; python_version > '3'\nAuthor-email: me@here\n\nwrite to me@here, http://here\n"
    check_foreign(pack(tmp_path / "a-1-py3-none-any.whl", [("a-1.dist-info/METADATA", needed)]))
    with pytest.raises(PackageError, match="are too much for it"):
        check_foreign(pack(tmp_path / "b-1-py3-none-any.whl", [("b.py", bytes(5_000_000))]))
    (tmp_path / "c-1-py3-none-any.whl").write_bytes(b"no archive")
    with pytest.raises(PackageError, match="cannot be read"):
        check_foreign(tmp_path / "c-1-py3-none-any.whl")
