"""Hostile calls about mounted folders, without a sandbox: a failure by word, and never a look beyond them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from belljar.engines.base import ignore
from belljar.engines.transport.frames import BrokenProtocol, encode
from belljar.engines.wasm.builtins import Builtins
from belljar.engines.wasm.fetches import Fetches
from belljar.engines.wasm.folders import MOST_FILES, Folders
from belljar.engines.wasm.mounts import Mounts
from belljar.engines.wasm.python import PythonExchange
from belljar.engines.wasm.replies import Replies
from belljar.errors import StartFailed
from belljar_kernel.protocol import MOUNT_PIECE_BYTES

HOSTILE: list[Any] = [
    None,
    True,
    -1,
    10**400,
    1.5,
    "",
    "x",
    "\ud800",
    "\udcff",
    [],
    [0],
    {},
    {"a": 1},
    "a\0b",
    "x" * 5000,
]
PATHS = [
    "..",
    "../secret.txt",
    "notes/../../secret.txt",
    "/etc/passwd",
    "./prices.csv",
    "notes//today.md",
    "up/x",
    "a/" * 5000,
]


def ask(folders: Folders, **question: Any) -> tuple[dict[str, Any], bytes]:
    return folders.answer({"mount": 0, "path": "", **question})


@pytest.fixture
def folders(vault: Path):
    made = Folders([os.path.realpath(vault)])
    yield made
    made.close()


def test_questions_are_answered(folders: Folders):
    assert ask(folders, act="look", path="prices.csv")[0]["facts"][:2] == ("file", 26)
    assert ask(folders, act="look", path="up")[0]["facts"][3] == "../secret.txt"
    handle = ask(folders, act="open", path="notes/today.md")[0]["handle"]
    assert ask(folders, act="read", handle=handle, offset=2, size=100) == ({}, b"today")
    assert ask(folders, act="read", handle=handle, offset=100, size=100) == ({}, b"")
    assert ask(folders, act="close", handle=handle) == ({}, b"")
    assert ask(folders, act="read", handle=handle, offset=0, size=1)[0] == {"failure": "failed"}


@pytest.mark.parametrize("act", ["look", "list", "open"])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:20])
def test_no_path_leads_out(folders: Folders, act: str, path: str):
    assert set(ask(folders, act=act, path=path)[0]) == {"failure"}


@pytest.mark.parametrize("name", ["up", "full", "passwd", "inner", "notes"])
def test_links_and_folders_are_never_opened_as_files(folders: Folders, name: str):
    assert ask(folders, act="open", path=name)[0] == {"failure": "refused"}


@pytest.mark.usefixtures("special")
def test_pipes_and_sockets_are_never_opened(folders: Folders):
    assert [ask(folders, act="open", path=name)[0] for name in ("pipe", "socket")] == [{"failure": "refused"}] * 2
    assert ask(folders, act="look", path="pipe")[0]["facts"][0] == "other"


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_any_value_in_a_question_is_a_failure_or_an_answer(folders: Folders, value: object):
    held = ask(folders, act="open", path="prices.csv")[0]["handle"]
    for act in ("look", "list", "more", "open", "size", "read", "close", value):
        for field in ("path", "mount", "handle", "offset", "size"):
            question = {"handle": held if act in ("size", "read") else 99, "offset": 0, "size": 10, field: value}
            head, data = ask(folders, act=act, **question)
            assert isinstance(head, dict)
            assert b"business" not in data
    assert ask(folders, act="read", handle=held, offset=0, size=4) == ({}, b"item")


def test_a_listing_of_any_length_comes_in_answers_of_bounded_size(folders: Folders, vault: Path):
    for number in range(5000):
        (vault / "notes" / f"{number:05}").touch()
    head = ask(folders, act="list", path="notes")[0]
    rows = list(head["rows"])
    assert len(rows) <= 2000
    while head["handle"] is not None:
        head = ask(folders, act="more", handle=head["handle"])[0]
        rows += head["rows"]
    assert sorted(row[0] for row in rows) == sorted(os.listdir(vault / "notes"))


def test_what_is_open_and_what_is_read_at_once_is_bounded(vault: Path):
    before = len(os.listdir("/proc/self/fd"))
    folders = Folders([os.path.realpath(vault)])
    (vault / "sparse").touch()
    os.truncate(vault / "sparse", 1 << 40)
    handles = [ask(folders, act="open", path="sparse")[0].get("handle") for _ in range(folders.most_files)]
    assert None not in handles
    assert ask(folders, act="open", path="sparse")[0] == {"failure": "many"}
    assert len(os.listdir("/proc/self/fd")) <= before + 1 + folders.most_files
    assert len(ask(folders, act="read", handle=handles[0], offset=1 << 39, size=1 << 38)[1]) == MOUNT_PIECE_BYTES
    folders.close()
    assert len(os.listdir("/proc/self/fd")) <= before


class Runner:
    """A process that takes what it is sent."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, frame: bytes) -> None:
        self.written.append(frame)


def test_a_call_out_of_turn_breaks_the_protocol(vault: Path):
    async def flood() -> list[bytes]:
        runner = Runner()
        mounts = Mounts(Folders([os.path.realpath(vault)]), Replies(runner.write))
        place = {"mount": 0, "path": "prices.csv"}
        mounts.take("look", -7, place)
        with pytest.raises(BrokenProtocol):
            mounts.take("look", -8, place)
        while not runner.written:
            await asyncio.sleep(0.001)
        mounts.take("look", -9, {**place, "act": "read"})
        mounts.end()  # while a thread still looks: no reply is sent, and nothing stays open
        await asyncio.sleep(0.2)
        return runner.written

    (frame,) = asyncio.run(flood())
    reply = json.loads(frame[4:])
    assert (reply["type"], reply["call_id"], reply["value"]["facts"][:2]) == ("reply", -7, ["file", 26])


@pytest.mark.parametrize(("has_mounts", "number"), [(False, 7), (True, 0), (True, 1 << 60), (True, -(1 << 60))])
def test_a_call_without_mounts_or_with_a_number_that_cannot_be_breaks_the_protocol(
    vault: Path, has_mounts: bool, number: int
):
    async def ask() -> None:
        replies = Replies(Runner().write)
        mounts = Mounts(Folders([os.path.realpath(vault)]), replies) if has_mounts else None
        place = {"mount": 0, "path": "prices.csv"}
        builtins = Builtins(Fetches(lambda: None, replies), mounts)
        with pytest.raises(BrokenProtocol):
            builtins.take({"type": "call", "id": 1, "call_id": number, "name": "mount.look", "args": place})
        builtins.end()

    asyncio.run(ask())


def test_what_is_read_travels_as_it_is_and_a_failure_is_an_error(vault: Path):
    async def answered(act: str, args: dict[str, Any]) -> bytes:
        runner = Runner()
        mounts = Mounts(Folders([os.path.realpath(vault)]), Replies(runner.write))
        mounts.take("open", -1, {"mount": 0, "path": "prices.csv"})
        while len(runner.written) < 1:
            await asyncio.sleep(0.001)
        mounts.take(act, -2, {"handle": 1, **args})
        while len(runner.written) < 2:
            await asyncio.sleep(0.001)
        mounts.end()
        return runner.written[1]

    text, _, data = asyncio.run(answered("read", {"offset": 0, "size": 100}))[4:].partition(b"\n")
    assert json.loads(text) == {"type": "reply", "call_id": -2, "value": {}}
    assert data == (vault / "prices.csv").read_bytes()
    refused = json.loads(asyncio.run(answered("size", {"handle": 9}))[4:])
    assert refused["error"]["name"] == "failed"


OTHER_DISK = """
import os, sys
from pathlib import Path
from belljar import InvalidRequest
from belljar.engines.wasm.folders import Folders
from belljar.mounts import check_folder
from belljar.settings import Settings
from belljar_jail import linux
vault = Path(sys.argv[1])
linux.unshare(linux.CLONE_NEWNS)
linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
linux.mount("disk", str(vault / "notes"), "tmpfs", 0, "size=1m")
(vault / "notes/over").write_text("on another disk")
(vault / "machine").mkdir()
linux.mount("proc", str(vault / "machine"), "proc", 0)
folders = Folders([os.path.realpath(vault)])
for path in ("notes", "notes/over", "machine", "machine/self", "machine/1/environ"):
    for act in ("look", "list", "open"):
        print(folders.answer({"act": act, "mount": 0, "path": path})[0].get("failure"))
for folder in ("machine", "machine/1"):
    try:
        check_folder(str(vault / folder), Settings.load())
        print("mounted")
    except InvalidRequest:
        print("refused")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount another disk")
def test_other_disks_and_the_machines_own_file_systems_do_not_come_along(vault: Path):
    done = subprocess.run([sys.executable, "-c", OTHER_DISK, str(vault)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == {"refused"}


@pytest.mark.parametrize("asks", [False, True])
def test_a_forged_call_ends_the_exchange_unless_it_belongs_to_a_request(asks: bool):
    async def forge() -> tuple[list[int], str | None]:
        exchange, taken = PythonExchange(), []
        look = {"type": "call", "name": "mount.look", "args": {"mount": 0, "path": ""}}
        if asks:
            exchange.on_builtin = lambda event: taken.append(event["call_id"])
            exchange.ask({"type": "variables"}, ignore)
            exchange.take(encode({**look, "id": exchange.open_id, "call_id": -1}))
        exchange.take(encode({**look, "id": 0, "call_id": -2}))
        return taken, exchange.ended.result()

    taken, ended = asyncio.run(forge())
    assert taken == ([-1] if asks else [])
    assert ended is not None
    assert "broke the protocol" in ended


def test_a_folder_that_is_a_link_by_now_is_refused(vault: Path):
    real = Path(os.path.realpath(vault))
    real.rename(real.with_name("moved"))
    real.symlink_to("/etc")
    with pytest.raises(StartFailed, match="cannot be shown"):
        Folders([str(real)])


def test_guests_share_the_files_that_this_process_may_open(vault: Path, monkeypatch: pytest.MonkeyPatch):
    for allowed, share in ((1024, 32), (64, 16), (1 << 20, MOST_FILES), (-1, MOST_FILES)):
        monkeypatch.setattr("resource.getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        folders = Folders([os.path.realpath(vault)])
        assert folders.most_files == share
        folders.close()


def test_a_listing_that_is_given_up_or_fails_keeps_nothing_open(
    folders: Folders, vault: Path, monkeypatch: pytest.MonkeyPatch
):
    for number in range(2500):
        (vault / "notes" / f"{number:05}").touch()
    before = len(os.listdir("/proc/self/fd"))
    begun = [ask(folders, act="list", path="notes")[0]["handle"] for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert ask(folders, act="more", handle=begun[0])[0] == {"failure": "failed"}
    assert ask(folders, act="more", handle=begun[-1])[0]["handle"] is None

    def refuse(*_: object) -> None:  # as in a folder that may be listed but not entered
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("belljar.engines.wasm.folders._facts", refuse)
    assert ask(folders, act="list", path="notes")[0] == {"failure": "refused"}
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_is_moved_is_still_the_one_that_was_mounted(folders: Folders, vault: Path):
    vault.rename(vault.with_name("elsewhere"))
    vault.symlink_to("/etc")
    later = folders.again()
    assert ask(later, act="look", path="prices.csv")[0]["facts"][:2] == ("file", 26)
    assert ask(later, act="look", path="passwd")[0]["facts"][0] == "symlink"
    later.close()
    assert ask(folders, act="look", path="prices.csv")[0]["facts"][0] == "file"
