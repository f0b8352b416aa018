"""What live forks reach: the same hosts through a way out of their own, and the same mounted folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.loopback import Web, names

from belljar import HostBusy, InvalidRequest, Policy, Sandbox, StartFailed, compose
from belljar.compose import LocalHost
from belljar.host import admission
from belljar.settings import Settings

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can give forks user ids of their own")

CONNECT = """
import http.client, socket, urllib.error, urllib.request
def get(host, port):
    try: return urllib.request.urlopen(f"http://{host}:{port}/a", timeout=10).read().decode()
    except urllib.error.URLError as failure: return "refused"
held = http.client.HTTPConnection("example.test", _args)
held.request("GET", "/held")
said = held.getresponse().read().decode()
own = socket.create_server(("127.0.0.1", 8000))
"""
LOOK = """
import errno, os
def look():
    try: open("/data/new", "w"); written = "done"
    except OSError as failure: written = errno.errorcode[failure.errno]
    return [sorted(os.listdir("/data")), open("/data/prices.csv").read(), written]
held = open("/data/prices.csv", "rb", buffering=0)
first = held.read(4)
"""


@pytest.fixture
def closing(native: None) -> Iterator[ExitStack]:
    """Closes what a test makes."""
    with ExitStack() as stack:
        yield stack


def test_a_fork_reaches_what_its_parent_may_and_is_told_of_its_own_refusals(closing: ExitStack):
    known = closing.enter_context(names())
    known.known = {"example.test": ["127.0.0.1"]}
    web = Web()
    closing.callback(web.close)
    policy = Policy(packages="none", network=[f"{host}:{web.port}" for host in ("example.test", "127.0.0.1")])
    parent = closing.enter_context(Sandbox("native", policy=policy))
    parent.run(CONNECT, args=web.port).raise_for_status()
    fork = closing.enter_context(parent.fork()[0])
    second = closing.enter_context(fork.fork()[0])
    for one in (fork, second, parent):
        assert one.run(f"get('example.test', {web.port})").value == "hello /a"
    refused = fork.run("get('evil.test', 80)")
    assert (refused.value, [denial.target for denial in refused.denials]) == ("refused", ["evil.test:80"])
    assert [one.run("1").denials for one in (parent, second)] == [[], []]

    # Neither connections nor servers of the parent are the fork's.
    held = fork.run("held.request('GET', '/held')")
    assert held.error is not None
    assert held.error.name == "OSError"
    assert parent.run("held.request('GET', '/again'); held.getresponse().read().decode()").value == "hello /again"
    own = fork.run("socket.create_connection(('127.0.0.1', 8000), 5)")
    assert own.error is not None
    assert own.error.name == "ConnectionRefusedError"

    parent.close()
    fork.reset()
    fork.run(CONNECT, args=web.port).raise_for_status()
    assert [one.run(f"get('example.test', {web.port})").value for one in (fork, second)] == ["hello /a"] * 2


def test_a_fork_of_a_sandbox_without_network_is_told_that_it_has_none(sandbox: Sandbox, closing: ExitStack):
    fork = closing.enter_context(sandbox.fork()[0])
    ran = fork.run("import urllib.request; urllib.request.urlopen('http://example.test/')")
    assert [denial.target for denial in ran.denials] == ["example.test:80"]
    assert sandbox.run("1").denials == []


def test_a_fork_has_the_mounts_of_its_parent_and_sees_what_changes(closing: ExitStack, tmp_path: Path):
    vault = tmp_path / "vault"
    vault.mkdir(mode=0o700)
    (vault / "prices.csv").write_text("apple")
    parent = closing.enter_context(Sandbox("native", policy=Policy(packages="none", mounts={"/data": str(vault)})))
    parent.run(LOOK).raise_for_status()
    fork = closing.enter_context(parent.fork()[0])
    second = closing.enter_context(fork.fork()[0])
    for one in (fork, second, parent):
        ran = one.run("rest = held.read().decode(); held.close(); [rest, look()]")
        assert (ran.value, ran.state, one.restored) == (["e", [["prices.csv"], "apple", "EROFS"]], "kept", None)
    (vault / "prices.csv").unlink()
    (vault / "prices.csv").write_text("pear")
    (vault / "later").write_text("")
    parent.close()
    for one in (fork, second):
        assert one.run("look()").value == [["later", "prices.csv"], "pear", "EROFS"]
        assert str(tmp_path) not in one.run("open('/proc/self/mountinfo').read()").value
    assert fork.run("os.abort()").state == "reset"
    fork.run(LOOK).raise_for_status()
    assert fork.run("look()").value == [["later", "prices.csv"], "pear", "EROFS"]


def test_a_folder_that_is_gone_is_a_reason_and_costs_nothing(closing: ExitStack, tmp_path: Path):
    vault = tmp_path / "vault"
    vault.mkdir()
    parent = closing.enter_context(Sandbox("native", policy=Policy(packages="none", mounts={"/data": str(vault)})))
    parent.run("x = 1")
    vault.rmdir()
    with pytest.raises(StartFailed, match="vault cannot be shown"):
        parent.fork()
    vault.symlink_to("/etc")
    with pytest.raises(StartFailed, match="vault cannot be shown"):
        parent.fork()
    assert parent.run("x").value == 1


def test_forks_take_places_of_their_host_and_give_them_back(
    closing: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = replace(Settings.load(), state_dir=tmp_path, pool_size=0, reserve_size=0, max_sandboxes=3)
    host = LocalHost(settings)
    closing.callback(host.close)
    closing.enter_context(compose.using(host))
    monkeypatch.setattr(admission, "WAIT_S", 0.1)
    parent = closing.enter_context(Sandbox("native", policy=Policy(packages="none")))
    with pytest.raises(InvalidRequest, match="at most 2 forks"):
        parent.fork(3)  # waiting would not help
    for _ in range(2):
        with Sandbox("native", policy=Policy(packages="none")), pytest.raises(HostBusy, match="its 3 sandboxes"):
            parent.fork(2)
        forks = parent.fork(2)
        with pytest.raises(HostBusy):
            parent.fork()
        for fork in forks:
            fork.close()
    assert host.host.status()["counters"]["created"] == 7
