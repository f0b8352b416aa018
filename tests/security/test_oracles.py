"""The judges of the attacks are able to convict: each sees what it is there to see."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from belljar.attacks.arena import Possessions, descendants
from belljar.attacks.canaries import VARIABLE, Canaries


@pytest.fixture
def canaries() -> Iterator[Canaries]:
    made = Canaries()
    yield made
    made.close()


def test_canaries_in_peace_say_nothing(canaries: Canaries):
    assert canaries.disturbed() == []
    assert canaries.seen_in("nothing to see") == []


def test_a_secret_that_came_out_is_seen(canaries: Canaries):
    assert canaries.seen_in(f"... {os.environ[VARIABLE]} ...")
    assert canaries.seen_in(canaries.file.read_text())


def test_a_file_that_was_touched_is_seen(canaries: Canaries):
    os.utime(canaries.file, (0, 0))
    assert canaries.disturbed() == ["the canary file or its folder was changed"]


def test_a_file_that_was_added_is_seen(canaries: Canaries):
    (canaries.folder / "more").write_text("x")
    assert canaries.disturbed() == ["the canary file or its folder was changed"]


@pytest.mark.parametrize(
    ("name", "family", "key"),
    [
        ("TCP", socket.AF_INET, "tcp"),
        ("unix path", socket.AF_UNIX, "socket"),
        ("abstract unix", socket.AF_UNIX, "abstract"),
    ],
)
def test_a_connection_is_seen(canaries: Canaries, name: str, family: socket.AddressFamily, key: str):
    place = canaries.places()[key]
    address: object = ("127.0.0.1", place) if key == "tcp" else f"\0{place}" if key == "abstract" else place
    with socket.socket(family, socket.SOCK_STREAM) as end:
        end.connect(address)
        assert canaries.disturbed() == [f"the {name} canary was connected to"]


def test_a_datagram_is_seen(canaries: Canaries):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"x", ("127.0.0.1", int(str(canaries.places()["udp"]))))
    assert canaries.disturbed() == ["the UDP canary was sent to"]


def test_what_was_left_behind_is_named():
    nothing = Possessions(frozenset(), frozenset(), frozenset(), frozenset())
    assert nothing.beyond(nothing) == []
    more = Possessions(frozenset({"12"}), frozenset({"pipe:[1]"}), frozenset({"/g"}), frozenset({"m"}))
    assert more.beyond(nothing) == [
        "left behind, processes: 12",
        "left behind, descriptors: pipe:[1]",
        "left behind, control groups: /g",
        "left behind, mounts: m",
    ]


def test_a_child_that_was_not_reaped_is_a_descendant():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        assert [process.state for process in descendants() if process.pid == pid] == ["Z"]
    finally:
        os.waitpid(pid, 0)
