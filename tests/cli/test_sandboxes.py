"""`belljar sandboxes`: what another process sees of durable sandboxes, and how it ends them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import probe

from belljar import Sandbox, SandboxClosed, compose
from belljar.compose import LocalHost
from belljar.durable import control_socket
from belljar.durable.lock import HostLock
from belljar.service.base import LIBRARY
from belljar.settings import Settings


@pytest.fixture(scope="module")
def here(native: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHost]:
    folder = tmp_path_factory.mktemp("a folder with a name so long that no socket could be bound in it by its path" * 2)
    host = LocalHost(replace(Settings.load(), state_dir=folder, pool_size=0, reserve_size=0))
    with compose.using(host):
        yield host
    host.close()


def belljar(state_dir: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "belljar", "sandboxes", *words],
        capture_output=True, text=True, timeout=60, env={"BELLJAR_STATE_DIR": str(state_dir), "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(sys.path)}, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_no_store_is_an_empty_list_and_none_is_made(tmp_path: Path):
    assert json.loads(belljar(tmp_path / "none", "list", "--json")) == []
    assert "no durable sandbox" in belljar(tmp_path / "none", "show", "12345678", code=125)
    assert not (tmp_path / "none").exists()


def test_live_and_sleeping_ones_are_seen_and_closed_from_another_process(here: LocalHost):
    folder = here.settings.state_dir
    live, asleep = Sandbox("native", durable=True, name="alive"), Sandbox("native", durable=True)
    live.run("data = bytearray(30 << 20)")
    live.run("1 / 0")
    asleep.run("x = 1")
    asleep.hibernate()
    rows = {row["id"]: row for row in json.loads(belljar(folder, "list", "--json"))}
    assert {id_: row["state"] for id_, row in rows.items()} == {live.id: "live", asleep.id: "asleep"}
    assert rows[live.id]["usage"]["memory_bytes"] > 30 << 20
    assert rows[live.id]["usage"]["cpu_s"] > 0
    table = belljar(folder, "list").splitlines()
    assert table[0].split() == ["ID", "STATE", "ENGINE", "AGE", "USED", "MEMORY", "CPU", "NAME"]
    assert [line.split()[-1] for line in table if line.startswith(live.id)] == ["alive"]
    shown = json.loads(belljar(folder, "show", live.id[:13], "--json", "--runs", "1"))
    assert [(run["status"], run["code"]) for run in shown["runs"]] == [("error", "1 / 0")]
    assert "run 1: ok" in belljar(folder, "show", asleep.id)
    said = belljar(folder, "close", live.id, "00000000", "11111111", asleep.id[:13], code=125)
    assert said.startswith(f"closed {live.id}\nclosed {asleep.id}\n")
    assert "'00000000'" in said
    assert "'11111111'" in said
    for sandbox in (live, asleep):
        with pytest.raises(SandboxClosed, match=r"another process asked|belljar sandboxes close"):
            sandbox.run("1")
    assert here.host.sessions() == []
    assert json.loads(belljar(folder, "list", "--json")) == []
    assert len(json.loads(belljar(folder, "list", "--json", "--all"))) == 2
    assert "too short" in belljar(folder, "close", "12", code=2)


def test_one_that_its_host_has_but_is_not_up_yet_is_not_called_closed(here: LocalHost):
    with Sandbox("native", durable=True) as sandbox:
        sandbox.run("x = 1")
    ledger = probe.durability(here).ledger
    name = ledger.name
    ledger.store.begin(lambda store: store.claim(sandbox.id, name, None)).result(10)  # as while it wakes
    assert "try again" in belljar(here.settings.state_dir, "close", sandbox.id, code=125)
    ledger.store.begin(lambda store: store.release(name, None, sandbox.id)).result(10)
    assert belljar(here.settings.state_dir, "close", sandbox.id) == f"closed {sandbox.id}\n"


def test_a_host_that_does_not_answer_is_named_with_what_to_do(here: LocalHost):
    with Sandbox("native", durable=True) as sandbox:
        sandbox.run("x = 1")
    folder, store = here.settings.state_dir, probe.durability(here).ledger.store
    lock = HostLock.take(folder)  # it lives, and listens to nobody
    store.begin(lambda rows: rows.claim(sandbox.id, lock.name, None)).result(10)
    said = belljar(folder, "close", sandbox.id, code=125)
    assert f"(pid {os.getpid()}), which does not answer; end that process, then close" in said
    assert json.loads(belljar(folder, "list", "--json"))[0]["usage"] is None
    lock.release()
    assert belljar(folder, "close", sandbox.id) == f"closed {sandbox.id}\n"


def test_the_private_socket_knows_no_other_act_and_bears_nonsense(here: LocalHost, caplog: pytest.LogCaptureFixture):
    folder, name = here.settings.state_dir, probe.durability(here).ledger.name
    assert (folder / "hosts" / f"{name}.sock").stat().st_mode & 0o077 == 0
    assert control_socket.ask(folder, name, {"act": "run", "code": "1"}) == {"error": "this host knows no such act"}
    assert control_socket.ask(folder, name, {"x": "y" * 100_000}) is None
    with socket.socket(socket.AF_UNIX) as line, probe.short_path(folder / "hosts", f"{name}.sock") as path:
        line.connect(path)
        line.sendall(b"[" * 60_000 + b"\n")
        assert line.recv(1) == b""
    assert control_socket.ask(folder, name, {"act": "close", "owner": LIBRARY, "id": "nobody"}) == {"closed": False}
    assert set(control_socket.ask(folder, name, {"act": "status", "owner": LIBRARY})) == {
        "counters",
        "waiting",
        "sandboxes",
    }
    assert control_socket.ask(folder, "nobody", {"act": "status", "owner": LIBRARY}) is None
    assert control_socket.ask(folder, name, {"act": "status"}) == {
        "error": "this host knows no such act"
    }  # of no owner
    assert "Unhandled" not in caplog.text
