"""Each source by itself: what it gives, what it refuses, and what it says when it cannot help."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests import probe
from tests.packages.conftest import BUNDLE, CDN, CORE, FILES, LITTLE, TARBALL, Serve, contents, failure, fetched

from belljar.errors import PackageError
from belljar.packages import programs
from belljar.packages.progress import in_silence
from belljar.packages.sources import web
from belljar.packages.sources.base import Refused, Unavailable, accept
from belljar.packages.sources.node import Node
from belljar.packages.sources.web import cdn, mirror
from belljar.packages.sources.wheelhouse import Wheelhouse


def test_a_file_gets_its_name_only_when_every_byte_is_right(into: Path) -> None:
    pin = LITTLE.core[0]
    right = CORE[pin.name]
    for wrong, reason in (
        (right[:-1], "16 instead of 17"),
        (right + b"!", "more than 17"),
        (right[:-1] + b"!", "sha256"),
    ):
        left = [wrong]
        with pytest.raises(Refused, match=rf"{pin.name} from a test is refused: .*{reason}"):
            accept(pin, lambda _: left.pop() if left else b"", into, "a test")  # noqa: B023
        assert contents(into) == {}
    left = [right]
    accept(pin, lambda _: left.pop() if left else b"", into, "a test")
    assert contents(into) == {pin.name: right}


def test_an_endless_file_is_cut_at_the_pinned_size(into: Path) -> None:
    given = 0

    def endless(count: int) -> bytes:
        nonlocal given
        given += count
        return bytes(count)

    with pytest.raises(Refused, match="more than"):
        accept(LITTLE.core[0], endless, into, "a test")
    assert given < 1_000_000


def test_a_wheelhouse_gives_loose_files(wheelhouse: Path, into: Path) -> None:
    assert fetched(Wheelhouse(wheelhouse, LITTLE), into) == FILES


def test_a_wheelhouse_may_hold_the_bundle(tmp_path: Path, into: Path) -> None:
    (tmp_path / LITTLE.bundle.name).write_bytes(BUNDLE)
    (tmp_path / "quince-3.0-py3-none-any.whl").write_bytes(FILES["quince-3.0-py3-none-any.whl"])
    assert fetched(Wheelhouse(tmp_path, LITTLE), into) == FILES


def test_a_wheelhouse_may_hold_pyodides_tarball(tmp_path: Path, into: Path) -> None:
    (tmp_path / LITTLE.tarball.name).write_bytes(TARBALL)
    assert "does not have apple-1.0-py3-none-any.whl" in failure(Wheelhouse(tmp_path, LITTLE), into)
    assert contents(into) == CORE


@pytest.mark.parametrize("archive", [LITTLE.bundle, LITTLE.tarball], ids=lambda pin: pin.name)
def test_an_archive_that_is_not_the_pinned_one_is_not_even_opened(tmp_path: Path, into: Path, archive: object) -> None:
    name = getattr(archive, "name", "")
    (tmp_path / name).write_bytes((BUNDLE if name.endswith("whl") else TARBALL) + b"\0")
    assert f"{name} from the wheelhouse is refused" in failure(Wheelhouse(tmp_path, LITTLE), into)
    assert contents(into) == {}


def test_a_wrong_file_in_a_wheelhouse_is_refused_and_the_right_ones_are_taken(wheelhouse: Path, into: Path) -> None:
    name = "apple-1.0-py3-none-any.whl"
    (wheelhouse / name).write_bytes(FILES[name][:-1] + b"!")
    assert f"{name} from the wheelhouse is refused: its sha256 is" in failure(Wheelhouse(wheelhouse, LITTLE), into)
    assert contents(into) == {key: value for key, value in FILES.items() if key != name}


def test_a_wheelhouse_that_is_not_set_or_not_there_says_so(tmp_path: Path, into: Path) -> None:
    assert "BELLJAR_WHEELHOUSE" in failure(Wheelhouse(None, LITTLE), into)
    assert "nowhere is no folder" in failure(Wheelhouse(tmp_path / "nowhere", LITTLE), into)


def test_a_mirror_serves_files_by_their_own_names_below_its_address(serve: Serve, into: Path) -> None:
    served = serve({f"some/where/{name}": content for name, content in FILES.items()})
    told: list[float | None] = []
    mirror(f"{served.address}/some/where").fetch(LITTLE.files, into, lambda _, done: told.append(done))
    assert contents(into) == FILES
    assert told == sorted(told, key=lambda done: done or 0)
    assert told[-1] == 1.0


def test_what_a_mirror_lacks_is_named_and_the_rest_is_taken(serve: Serve, into: Path) -> None:
    served = serve({name: content for name, content in FILES.items() if name != "pyodide.mjs"})
    assert failure(mirror(served.address), into) == "pyodide.mjs: the answer is 404"
    assert len(contents(into)) == len(FILES) - 1


def test_a_mirror_that_serves_something_else_is_refused_by_name(serve: Serve, into: Path) -> None:
    served = serve(FILES | {"pyodide.asm.mjs": b"export default 2;"})
    assert "pyodide.asm.mjs from the mirror is refused: its sha256 is" in failure(mirror(served.address), into)


def test_a_mirror_that_nobody_answers_for_is_asked_once(
    silent_port: int, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "FIRST_ANSWER_S", 0.3)
    monkeypatch.setattr(web, "SILENCE_S", 0.3)
    source = mirror(f"http://127.0.0.1:{silent_port}")
    before = threading.active_count()
    assert "cannot be reached" in failure(source, into)
    assert threading.active_count() <= before + 1
    assert "cannot be reached" in failure(source, into)
    refused = mirror("http://127.0.0.1:9")
    assert "cannot be reached ([Errno" in failure(refused, into)


def test_a_transfer_that_only_drips_is_given_up(serve: Serve, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(FILES)
    times = iter(range(0, 10_000_000, 1000))
    monkeypatch.setattr(web.time, "monotonic", lambda: next(times))
    assert "it sends too slowly" in failure(mirror(served.address), into)


def test_the_address_of_the_cdn_is_read_from_the_verified_loader(into: Path) -> None:
    assert "not there yet" in failure(cdn(LITTLE), into)
    (into / "pyodide.mjs").write_bytes(CORE["pyodide.mjs"])
    source = cdn(LITTLE)
    asked = probe.note_downloads(source)
    source.fetch(LITTLE.wheels, into, in_silence)
    assert asked == [f"{CDN}314.0.3/full/"] * 3
    assert "cannot be reached" in failure(cdn(LITTLE), into)


def test_the_node_package_needs_deno_and_has_no_wheels(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.shutil, "which", lambda *_, **__: None)
    with pytest.raises(PackageError, match="deno is missing"):
        Node(LITTLE).fetch(LITTLE.files, into, in_silence)
    with pytest.raises(Unavailable, match="no wheels"):
        Node(LITTLE).fetch(LITTLE.wheels, into, in_silence)
    assert contents(into) == {}


def test_the_node_package_is_taken_from_where_deno_puts_it(
    into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deno = tmp_path / "deno"
    writes = "".join(
        f"printf '%s' {content.decode()!r} > $d/{name}\n" for name, content in CORE.items() if name.endswith("mjs")
    )
    deno.write_text(f"#!/bin/sh\nd=$DENO_DIR/npm/a.registry/pyodide/314.0.3\nmkdir -p $d\n{writes}")
    deno.chmod(0o755)
    monkeypatch.setattr("belljar.packages.sources.node.find_program", lambda _: str(deno))
    assert "it has no pyodide.asm.wasm" in failure(Node(LITTLE), into)
    assert contents(into) == {name: content for name, content in CORE.items() if name.endswith("mjs")}
